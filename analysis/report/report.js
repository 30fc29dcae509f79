"use strict";
// The page works without this file except for the question browser; tables.js comes before it.
// All text goes in through textContent: nothing that a model wrote becomes markup.

// ------------------------------------------------------------------ sections in the header

function sections() {
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const e of entries) e.isIntersecting ? seen.add(e.target.id) : seen.delete(e.target.id);
    let marked = false;
    for (const [id, link] of links) {
      const here = !marked && seen.has(id);
      link.classList.toggle("here", here);
      if (here) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
      marked = marked || here;
    }
  }, { rootMargin: "-25% 0px -60% 0px" });
  for (const [id, link] of links) {
    if ($(id)) watch.observe($(id));
    link.addEventListener("click", () => { if ($(id)) $(id).open = true; });
  }
}

// The report that bon serves leads back to its validation.
function backToValidation() {
  const served = location.pathname.match(/^(.*)\/reports\/([\w-]+)\/[\w-]+\/report\.html$/);
  if (served) document.querySelector("nav").prepend(make("a", { href: `${served[1]}/validations/${served[2]}`, text: "← Validation" }));
}

// ------------------------------------------------------------------ the browser's data

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

const waiting = new Map();
globalThis.bonChunk = (number, text) => waiting.get(number)?.(text);

class Source {
  constructor(data) {
    this.data = data;
    this.cache = new Map();
  }

  // A question with all that belongs to it; null where the side folder is missing.
  async get(question) {
    const number = Math.floor(question / this.data.chunk);
    if (!this.cache.has(number)) {
      if (this.cache.size > 24) this.cache.delete(this.cache.keys().next().value);
      this.cache.set(number, this.load(number));
    }
    const chunk = await this.cache.get(number);
    return chunk && chunk[question % this.data.chunk];
  }

  async load(number) {
    if (this.data.chunks) return inflate(this.data.chunks[number]);
    const text = await new Promise((done) => {
      waiting.set(number, done);
      const script = make("script", { src: `${this.data.folder}/data/${String(number).padStart(4, "0")}.js` });
      script.addEventListener("error", () => done(null));
      script.addEventListener("load", () => { script.remove(); done(null); });
      document.head.append(script);
    });
    waiting.delete(number);
    return text && inflate(text);
  }
}

// ------------------------------------------------------------------ the browser

const LEAKED = 1, ALL_WRONG = 2, ALL_RIGHT = 4, DISAGREE = 8, UNPARSED = 16;
const OUTCOMES = ["", "unparsed", "error"];
const PAGE = 25;

class Browser {
  constructor(data, index) {
    this.source = new Source(data);
    this.data = data;
    this.index = index;
    this.total = index.id.length;
    this.haystack = index.id.map((id, i) =>
      `${id} ${data.subjects[index.subject[i]]} ${index.text[i]}`.toLowerCase());
    this.byLink = new Map(index.link.map((link, i) => [link, i]));
    this.flags = new Set();
    this.shown = [];
    this.current = -1;
    this.limit = PAGE;
    this.controls();
    this.filter();
    addEventListener("hashchange", () => this.fromHash());
    addEventListener("keydown", (e) => this.press(e));
    if (!this.fromHash() && this.shown.length) this.open(this.shown[0], false);
  }

  controls() {
    const fill = (id, names, every) => {
      const select = $(id);
      if (every) select.append(make("option", { value: "-1", text: every }));
      names.forEach((name, i) => select.append(make("option", { value: i, text: name || "not given" })));
      select.addEventListener("change", () => { this.filter(); this.draw(); });
      if (names.length < 2) select.parentElement.hidden = true;
      return select;
    };
    this.policy = fill("by-policy", this.data.policies);
    this.rewarder = fill("by-rewarder", this.data.rewarders, "any");
    this.other = fill("by-other", this.data.rewarders, "nobody");
    this.subject = fill("by-subject", this.data.subjects, "all");
    this.difficulty = fill("by-difficulty", this.data.difficulties, "all");
    $("find").addEventListener("input", () => this.filter());
    for (const chip of document.querySelectorAll(".chips button")) {
      chip.addEventListener("click", () => {
        const on = chip.getAttribute("aria-pressed") !== "true";
        chip.setAttribute("aria-pressed", String(on));
        this.flags[on ? "add" : "delete"](chip.dataset.flag);
        this.filter();
      });
      const never = { disagree: DISAGREE, wrong: ALL_WRONG, leaked: LEAKED, unparsed: UNPARSED }[chip.dataset.flag];
      const any = never ? this.index.flags.some((f) => f & never) : this.data.rewarders.length > 0;
      if (!any) { chip.disabled = true; chip.title = "no such question"; }
    }
    document.querySelector(".filters").addEventListener("submit", (e) => e.preventDefault());
    $("previous").addEventListener("click", () => this.step(-1));
    $("next").addEventListener("click", () => this.step(1));
  }

  // Whether a question passes the filters that are on.
  keeps(i, words) {
    const flags = this.index.flags[i];
    if (this.flags.has("leaked") && !(flags & LEAKED)) return false;
    if (this.flags.has("wrong") && !(flags & ALL_WRONG)) return false;
    if (this.flags.has("disagree") && !(flags & DISAGREE)) return false;
    if (this.flags.has("unparsed") && !(flags & UNPARSED)) return false;
    if (Number(this.subject.value) >= 0 && this.index.subject[i] !== Number(this.subject.value)) return false;
    if (Number(this.difficulty.value) >= 0 && this.index.difficulty[i] !== Number(this.difficulty.value)) return false;
    if (this.flags.has("vote")) {
      const state = this.index.state[i][this.policy.value];
      if (!state || state[0] !== "r") return false;
      const one = Number(this.rewarder.value);
      if (!state[1].some(([r, s]) => s === "w" && (one < 0 || r === one))) return false;
    }
    if (this.two().length) {
      const picked = new Map((this.index.state[i][this.policy.value] || ["", []])[1].map(([r, , answers]) => [r, String(answers)]));
      const [one, other] = this.two().map((r) => picked.get(r));
      if (one === undefined || other === undefined || one === other) return false;
    }
    return words.every((word) => this.haystack[i].includes(word));
  }

  // The two rewarders that are compared, if two are chosen.
  two() {
    const both = [Number(this.rewarder.value), Number(this.other.value)];
    return both[0] >= 0 && both[1] >= 0 && both[0] !== both[1] ? both : [];
  }

  filter() {
    const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = [];
    for (let i = 0; i < this.total; i++) if (this.keeps(i, words)) this.shown.push(i);
    this.limit = PAGE;
    const count = this.shown.length.toLocaleString("en");
    $("tally").textContent = this.shown.length === this.total
      ? `${count} questions` : `${count} of ${this.total.toLocaleString("en")} questions`;
    this.list();
    if (this.shown.length && !this.shown.includes(this.current) && this.current >= 0) this.open(this.shown[0]);
    this.place();
  }

  list() {
    const items = this.shown.slice(0, this.limit).map((i) => {
      const flags = this.index.flags[i];
      const notes = [
        this.data.subjects[this.index.subject[i]],
        flags & LEAKED ? "leaked" : "", flags & ALL_WRONG ? "all wrong" : "",
        flags & ALL_RIGHT ? "all right" : "", flags & DISAGREE ? "disagree" : "",
      ].filter(Boolean).join(" · ");
      const button = make("button", {
        type: "button", "data-i": i, "aria-current": i === this.current ? "true" : null,
        onclick: () => this.open(i),
      }, make("b", { text: plain(this.index.text[i]).trim() || this.index.id[i] }), make("span", { text: notes || this.index.id[i] }));
      return make("li", {}, button);
    });
    if (this.shown.length > this.limit) {
      items.push(make("li", {}, make("button", {
        type: "button", class: "rest", text: `show ${Math.min(PAGE, this.shown.length - this.limit)} more`,
        onclick: () => { this.limit += PAGE; this.list(); },
      })));
    }
    $("list").replaceChildren(...items);
  }

  place() {
    const at = this.shown.indexOf(this.current);
    $("place").textContent = at < 0 ? "" : `${(at + 1).toLocaleString("en")} of ${this.shown.length.toLocaleString("en")}`;
    $("previous").disabled = at <= 0;
    $("next").disabled = at >= this.shown.length - 1;
  }

  step(by) {
    const at = this.shown.indexOf(this.current) + by;
    if (at < 0 || at >= this.shown.length) return;
    this.open(this.shown[at]);
  }

  press(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
    const box = $("questions").getBoundingClientRect();
    if (box.top > innerHeight * 0.75 || box.bottom < innerHeight * 0.25) return;
    const sideways = e.key.startsWith("Arrow") && e.target.closest(".scroll");
    if (e.key === "/") { $("find").focus(); e.preventDefault(); }
    else if (e.key === "j" || (e.key === "ArrowRight" && !sideways)) { this.step(1); e.preventDefault(); }
    else if (e.key === "k" || (e.key === "ArrowLeft" && !sideways)) { this.step(-1); e.preventDefault(); }
  }

  fromHash() {
    if (!location.hash.startsWith("#q=")) return false;
    const link = decodeURIComponent(location.hash.slice(3));
    const i = this.byLink.get(link) ?? this.index.id.indexOf(link);
    if (i === undefined || i < 0) return false;
    if (i !== this.current) this.open(i, false);
    $("questions").open = true;
    $("questions").scrollIntoView();
    return true;
  }

  open(i, address = true) {
    this.current = i;
    const at = this.shown.indexOf(i);
    if (at >= this.limit) { this.limit = at + PAGE; this.list(); }
    if (address) {
      const hash = `#q=${encodeURIComponent(this.index.link[i])}`;
      try { history.replaceState(null, "", hash); } catch { location.hash = hash; }
    }
    for (const button of $("list").querySelectorAll("button[data-i]")) {
      const here = Number(button.dataset.i) === i;
      if (here) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
      if (here) {
        const list = $("list"), top = button.offsetTop - list.offsetTop;
        if (top < list.scrollTop || top > list.scrollTop + list.clientHeight - 50) list.scrollTop = top - 60;
      }
    }
    this.place();
    return this.draw();
  }

  async draw() {
    const i = this.current;
    if (i < 0) return;
    const detail = await this.source.get(i);
    if (i !== this.current) return; // a faster reader has moved on
    const view = $("view");
    view.replaceChildren(...question(this, i, detail));
    view.dataset.question = this.index.link[i];
    for (const said of view.querySelectorAll(".said")) {
      if (said.scrollHeight > said.clientHeight + 4) { said.classList.add("cut"); said.nextSibling.hidden = false; }
    }
  }
}

// ------------------------------------------------------------------ one question

function question(browser, i, detail) {
  const { data, index } = browser, flags = index.flags[i];
  const about = [
    data.subjects[index.subject[i]], data.difficulties[index.difficulty[i]],
    flags & LEAKED ? "leaked: also in the reward benchmark" : "",
  ].filter(Boolean).join(" · ");
  const head = make("h3", {}, make("a", { href: `#q=${encodeURIComponent(index.link[i])}`, text: index.id[i] }), " ",
    make("span", { class: "soft", text: about }));
  if (!detail) {
    return [head, make("p", { class: "q-text", text: plain(index.text[i]) }),
      make("p", { class: "flag", text: `The details of the questions are in the folder ${data.folder}, which is not beside this file.` })];
  }
  const policy = browser.policy.value || "0";
  const everyone = detail.c[policy] || [], pool = once(everyone), choices = detail.s[policy] || [];
  const parts = [head, make("p", { class: "q-text", text: plain(detail.q) }), pictures(data, detail.i), options(detail, everyone)];
  const two = browser.two();
  if (pool.length && two.length) {
    parts.push(make("div", { class: "versus" }, ...two.map((r) => {
      const picked = choices.find(([one]) => one === r)?.[1] || [];
      const cards = pool.filter((c) => c[5].some((k) => picked.includes(k))).map((c) => card(data, policy, c, []));
      return make("section", {}, make("h3", { text: `${data.rewarders[r]} picked` }), ...cards);
    })));
  }
  if (pool.length) {
    parts.push(make("h3", { text: "Responses" }),
      make("div", { class: "candidates" }, ...pool.map((c) => card(data, policy, c, choices))));
  }
  if (choices.length) parts.push(make("h3", { text: "What the rewarders chose" }), scores(data, pool, choices));
  else if (pool.length && data.rewarders.length) {
    parts.push(make("p", { class: "note", text: "Not judged: where all responses give the same answer, no choice can change the accuracy." }));
  }
  return parts.filter(Boolean);
}

// "<image 1>" stands for the first image below.
const plain = (text) => (text || "").replace(/<image (\d+)>/g, "[image $1]");

// Small images are shown enlarged.
function enlarged(image) {
  const mark = () => image.classList.toggle("small", image.naturalWidth < 120);
  if (image.complete) mark(); else image.addEventListener("load", mark);
}

function pictures(data, images) {
  if (!images.length) return null;
  const nodes = images.map((number, k) => {
    const source = data.images[number];
    if (!source) return make("p", { class: "note", text: `image ${k + 1} is not included in this report` });
    const image = make("img", { src: source, alt: `image ${k + 1} of the question` });
    enlarged(image);
    image.addEventListener("error", () => image.replaceWith(make("p", { class: "note", text: `image ${k + 1} is not beside this file` })));
    return make("figure", {}, image, images.length > 1 ? make("figcaption", { text: `[image ${k + 1}]` }) : null);
  });
  return make("div", { class: "images" }, ...nodes);
}

// Responses, equal ones once: number, answer, outcome, credit, text, all numbers, and its place among all.
function once(everyone) {
  const shown = new Map();
  everyone.forEach((c, k) => {
    const equal = shown.get(c[4] + "\0" + c[1]);
    if (equal) equal[5].push(c[0]); else shown.set(c[4] + "\0" + c[1], [...c, [c[0]], k]);
  });
  return [...shown.values()];
}

const numbers = (all) => (all.length > 3 ? `#${all[0]} and ${all.length - 1} equal ones` : all.map((n) => `#${n}`).join(" = "));

function options(detail, pool) {
  const votes = {};
  for (const [, answer] of pool) if (answer !== null) votes[answer] = (votes[answer] || 0) + 1;
  const most = Math.max(0, ...Object.values(votes));
  return make("ol", { class: "options" }, ...detail.o.map((text, k) => {
    const letter = String.fromCharCode(65 + k), right = letter === detail.a, count = votes[letter] || 0;
    const note = [right ? "✓ right" : "", count ? `${count} response${count > 1 ? "s" : ""}` : "",
      count && count === most && most > 1 ? "vote" : ""].filter(Boolean).join(" · ");
    return make("li", { class: right ? "right" : "" }, make("span", { text: `${letter}.` }),
      make("span", { text: plain(text) }), make("span", { class: "votes", text: note }));
  }));
}

function outcomeOf(credit) {
  return credit === 1 ? "✓ right" : credit ? `partly right (${credit})` : "✗ wrong";
}

function verdict(outcome, correct) {
  if (outcome) return make("span", { class: "no", text: OUTCOMES[outcome] });
  return make("span", { class: correct ? "yes" : "no", text: outcomeOf(correct) });
}

function card(data, policy, [number, answer, outcome, correct, text, equal], choices) {
  const label = (data.labels[data.policies[policy]] || {})[number];
  const by = choices.filter(([, picked]) => picked.some((k) => equal.includes(k))).map(([r, picked]) =>
    data.rewarders[r] + (picked.every((k) => equal.includes(k)) ? "" : " (tie)"));
  const more = make("button", { type: "button", text: "show all", "aria-expanded": "false", hidden: "" });
  const body = make("p", { class: "said", text: plain(text) });
  more.addEventListener("click", () => {
    const open = body.classList.toggle("open");
    more.textContent = open ? "show less" : "show all";
    more.setAttribute("aria-expanded", String(open));
  });
  return make("div", { class: correct ? "card right" : "card" },
    make("header", {}, make("span", { class: "soft", text: `${numbers(equal)} ${label ?? ""}`.trim() }),
      make("span", { class: "letter", text: answer ?? "–" }), verdict(outcome, correct)),
    by.length ? make("p", { class: "by", text: `picked by ${by.join(", ")}` }) : null,
    body, more);
}

function scores(data, pool, choices) {
  const right = new Map(pool.flatMap(([, , , correct, , equal]) => equal.map((k) => [k, correct])));
  const head = make("tr", {}, make("th", { scope: "col", text: "rewarder" }),
    ...pool.map(([number, answer, , correct]) => make("th", { scope: "col", text: `#${number} ${answer ?? "–"}${correct === 1 ? " ✓" : correct ? ` (${correct})` : ""}` })),
    make("th", { scope: "col", text: "outcome" }));
  const rows = choices.map(([r, picked, values]) => {
    const credit = picked.map((k) => right.get(k) || 0), good = credit.filter((c) => c).length;
    const state = !picked.length ? "–" : credit.every((c) => c === credit[0]) ? outcomeOf(credit[0]) : "tie";
    return make("tr", { class: good ? "" : "not-picked" }, make("th", { scope: "row", text: data.rewarders[r] }),
      ...pool.map(([, , , , , equal, k]) => make("td", {
        class: picked.some((one) => equal.includes(one)) ? "pick" : "", text: values[k] === null || values[k] === undefined ? "–" : short(values[k]),
      })),
      make("td", { class: `result ${credit.length && credit.every((c) => c === 1) ? "yes" : good || !picked.length ? "" : "no"}`, text: state }));
  });
  const table = make("table", { class: "scores" }, make("thead", {}, head), make("tbody", {}, ...rows));
  const box = make("div", { class: "scroll", role: "region", "aria-label": "Scores", tabindex: "0" }, table);
  const whole = make("div", {}, box);
  csv(table);
  const note = make("p", { class: "note", text: "Mean score, or share of comparisons won; boxed: picked." });
  return make("div", {}, ...whole.childNodes, note, rationales(data, choices));
}

function short(value) {
  return (Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2)).replace(/^-(0[.0]*)$/, "$1").replace("-", "−");
}

// A button per rewarder; its rationales are shown below.
function rationales(data, choices) {
  const judged = choices.filter(([, , , judgements]) => judgements.length);
  if (!judged.length) return null;
  const place = make("div", { "aria-live": "polite" });
  const buttons = judged.map(([r]) => make("button", { type: "button", "aria-pressed": "false", text: data.rewarders[r] }));
  buttons.forEach((button, k) => button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    buttons.forEach((b) => b.setAttribute("aria-pressed", "false"));
    button.setAttribute("aria-pressed", String(on));
    place.replaceChildren(...(on ? judged[k][3].map(why) : []));
  }));
  return make("div", { class: "why" }, make("h3", { text: "Rationales" }), make("div", { class: "chips" }, ...buttons), place);
}

function why([first, second, outcome, score, text]) {
  const shown = second === null ? `#${first}` : `#${first} against #${second}`;
  const result = outcome === "scored" && score !== null ? `score ${short(score)}`
    : outcome === "first" ? `#${first} is better` : outcome === "second" ? `#${second} is better` : outcome;
  return make("blockquote", {}, make("b", { text: `${shown}: ${result}` }), plain(text) || "(no text)");
}

// ------------------------------------------------------------------ start

async function start() {
  theme();
  sections();
  backToValidation();
  document.querySelectorAll("table.sortable").forEach(sortable);
  document.querySelectorAll("main table").forEach((table) => { folded(table); csv(table); });
  document.querySelectorAll(".images img").forEach(enlarged);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  const data = $("bon-data");
  if (!data) return;
  const parsed = JSON.parse(data.textContent);
  const index = await inflate(parsed.index);
  $("browser").hidden = false;
  $("beside").hidden = parsed.chunks !== null && !parsed.images.length;
  if (!index.id.length) return;
  globalThis.bonBrowser = new Browser(parsed, index);
}

start();
