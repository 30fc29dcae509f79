"use strict";
// Elements, the theme and tables: sorted by a click, long ones folded. The report and the service use it.

const $ = (id) => document.getElementById(id);

function theme() {
  const button = $("theme"), root = document.documentElement, order = ["auto", "light", "dark"];
  const read = () => { try { return localStorage.getItem("bon-theme"); } catch { return null; } };
  const apply = (name) => { root.dataset.theme = name; button.lastElementChild.textContent = name; };
  const requested = new URLSearchParams(location.search).get("theme");
  apply([requested, read()].find((name) => order.includes(name)) || "auto");
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
    apply(next);
    try { localStorage.setItem("bon-theme", next); } catch { /* private window */ }
  });
}

function make(tag, options, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options || {})) {
    if (name === "text") node.textContent = value;
    else if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return node;
}

// ------------------------------------------------------------------ sortable tables

function sortable(table) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.dataset.sort) return;
    const button = make("button", { type: "button", text: head.textContent, title: head.title || null });
    head.textContent = "";
    head.removeAttribute("title");
    head.append(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const up = now ? now === "descending" : head.dataset.sort === "asc";
      heads.forEach((h) => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
      rows.sort(([a], [b]) => compare(a, b, up));
      body.append(...rows.map(([, row]) => row));
      table.dispatchEvent(new Event("sorted"));
    });
  });
}

function key(cell) {
  const raw = cell.dataset.v ?? (cell.classList.contains("n") ? "" : cell.textContent.trim());
  if (raw === "") return null;
  return Number.isNaN(Number(raw)) ? raw : Number(raw);
}

function compare(a, b, up) {
  if (a === null || b === null) return (a === null) - (b === null); // unknown: always last
  const order = typeof a === "number" && typeof b === "number"
    ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return up ? order : -order;
}

// ------------------------------------------------------------------ long tables

const FOLDED = 20;

// Of a table with many rows the first are shown, in whatever order; a word finds the others.
function folded(table) {
  const body = table.tBodies[0], count = body ? body.rows.length : 0;
  if (count <= 1.5 * FOLDED) return;
  let open = false;
  const words = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the rows" });
  const button = make("button", { type: "button" });
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const whole = open || wanted.length > 0;
    let seen = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      const fits = wanted.every((word) => text.includes(word));
      seen += fits;
      row.hidden = !fits || (!whole && seen > FOLDED);
    }
    button.textContent = open ? `Show the first ${FOLDED}` : `Show all ${count} rows`;
    button.hidden = wanted.length > 0;
  };
  words.addEventListener("input", show);
  button.addEventListener("click", () => { open = !open; show(); });
  table.addEventListener("sorted", show);
  addEventListener("beforeprint", () => { open = true; words.value = ""; show(); });
  (table.closest(".scroll") || table).before(make("p", { class: "fold" }, words, button));
  show();
}

// ------------------------------------------------------------------ tables as files

// A button that saves the table as CSV: values where cells have them, no cell that is a formula.
function csv(table) {
  const text = (cell) => {
    const value = cell.dataset.v ?? cell.textContent.replace(/[↕↑↓]/g, "").replace(/\s+/g, " ").trim();
    const safe = /^[=+@\t]|^-(?![\d.])/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
    return /[",]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  const name = table.closest("[aria-label]")?.getAttribute("aria-label") || "table";
  const save = () => {
    const lines = [...table.rows].map((row) => [...row.cells].map(text).join(","));
    const url = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    make("a", { href: url, download: `${name.replace(/[^\w-]+/g, "_")}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  const button = make("button", { type: "button", class: "csv quiet", text: "CSV", "aria-label": `${name} as CSV`, onclick: save });
  (table.closest(".scroll") || table).after(button);
}
