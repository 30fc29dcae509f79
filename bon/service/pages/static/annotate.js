"use strict";
// Labelling: one item after another, by keyboard. Uses `$` and `make` of tables.js.
// An answer waits in localStorage until the server has said that it is on its disk, and is sent
// again under the same id if that was not heard; the next item is shown only then.

const WORDS = { "0": "tie", x: "cannot" };
const LABELS = { tie: "Tie", cannot: "Cannot say" };

class Labelling {
  constructor(root) {
    this.base = `${ROOT}/annotate/${root.dataset.bench}`;
    this.annotator = root.dataset.annotator;
    this.signedIn = this.annotator !== "";
    this.item = null;
    this.root = root;
    this.phase = "wait";
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("visibilitychange", () => this.clock.tick());
    $("why").addEventListener("keydown", (event) => this.writing(event));
    $("again").addEventListener("click", () => this.next());
    for (const tag of document.querySelectorAll("#tags button")) {
      tag.addEventListener("click", () => this.tag(tag));
    }
    if ($("other")) $("other").addEventListener("click", () => { remember("bon-annotator", ""); location.reload(); });
    this.zoom = new Zoom();
    this.clock = new Clock();
    this.identify();
  }

  // wait, choose, after or done
  get phase() { return this.root.dataset.phase; }

  set phase(name) { this.root.dataset.phase = name; }

  // ---------------------------------------------------------------- who

  identify() {
    const kept = remembered("bon-annotator");
    if (!this.signedIn && !kept) {
      const form = $("who");
      form.hidden = false;
      form.name.focus();
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        remember("bon-annotator", form.elements.name.value.trim());
        form.hidden = true;
        this.identify();
      });
      return;
    }
    this.annotator = this.annotator || kept;
    $("meter").hidden = false;
    this.outbox = new Outbox(this.base, this.annotator, (text) => this.trouble(text));
    this.next();
  }

  // ---------------------------------------------------------------- one item

  async next() {
    this.phase = "wait";
    await this.outbox.flush();
    this.show(await this.outbox.post("next", { annotator: this.annotator }));
  }

  show(state) {
    this.item = state.item;
    this.choice = "";
    this.lastSent = "";
    this.progress(state);
    $("item").hidden = $("deck").hidden = !this.item;
    $("done").hidden = Boolean(this.item);
    $("after").hidden = true;
    if (!this.item) {
      $("deck").hidden = !state.last;
      this.choices(0);
      this.phase = "done";
      return;
    }
    $("prompt").textContent = this.item.prompt;
    const many = this.item.responses.length;
    $("responses").className = `responses of-${many}`;
    $("responses").replaceChildren(...this.item.responses.map((text, at) =>
      make("article", { class: "response", "data-place": String(at + 1) },
        make("h2", { text: `Response ${at + 1}` }), make("div", { class: "text", dir: "auto", text }))));
    this.zoom.images(this.item.images.map((name) => `${this.base}/images/${encodeURIComponent(name)}`));
    this.choices(many);
    $("why").value = "";
    for (const tag of document.querySelectorAll("#tags button")) tag.setAttribute("aria-pressed", "false");
    window.scrollTo(0, 0);
    this.clock.start();
    this.phase = "choose";
  }

  choices(many) {
    const rows = [...Array(many).keys()].map((at) => ["choice", String(at + 1), `Response ${at + 1}`]);
    if (many) rows.push(["choice", "0", LABELS.tie], ["choice", "x", LABELS.cannot]);
    if (this.last) rows.push(["undo", "u", "Undo"]);
    const buttons = rows.map(([kind, key, text]) => {
      const button = make("button", { type: "button", class: kind, "data-key": key },
        make("kbd", { text: key }), make("span", { text }));
      if (kind === "choice") button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => (kind === "undo" ? this.undo() : this.choose(WORDS[key] || key)));
      return button;
    });
    const go = make("button", { type: "button", class: "primary go", id: "go", hidden: "" },
      make("kbd", { text: "Enter" }), make("span", { text: "Next" }));
    go.addEventListener("click", () => this.go());
    $("choices").replaceChildren(...buttons, go);
  }

  progress(state) {
    this.last = state.last;
    const all = state.done + state.left;
    $("bar").max = all || 1;
    $("bar").value = state.done;
    const pace = state.pace === null ? "" : ` · ${state.pace.toFixed(state.pace < 10 ? 1 : 0)} s each`;
    $("progress-text").textContent = `${this.annotator}: ${state.done} done, ${state.left} to go${pace}`;
  }

  // ---------------------------------------------------------------- answering

  async choose(choice) {
    if (this.phase !== "choose" && this.phase !== "after") return;
    if (choice === this.choice) return;
    if (this.phase === "choose") this.seconds = this.clock.seconds();
    this.choice = choice;
    this.phase = "after";
    this.mark();
    const item = this.item;
    const reply = await this.send();
    if (!reply || this.item !== item || this.phase !== "after") return;
    this.progress(reply);
  }

  mark() {
    for (const button of document.querySelectorAll("#choices .choice")) {
      const chosen = (WORDS[button.dataset.key] || button.dataset.key) === this.choice;
      button.setAttribute("aria-pressed", String(chosen));
    }
    for (const response of document.querySelectorAll(".response")) {
      response.classList.toggle("chosen", response.dataset.place === this.choice);
    }
    $("after").hidden = false;
    $("go").hidden = false;
    if (!document.querySelector("#choices .undo")) {
      this.last = this.last || this.item.key;
      const go = $("go");
      const undo = make("button", { type: "button", class: "undo", "data-key": "u" },
        make("kbd", { text: "u" }), make("span", { text: "Undo" }));
      undo.addEventListener("click", () => this.undo());
      go.before(undo);
    }
  }

  tag(button) {
    if (this.phase !== "after") return;
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
  }

  body(choice, item) {
    const tags = [...document.querySelectorAll("#tags button[aria-pressed=true]")].map((element) => element.dataset.tag);
    const details = choice === "withdrawn" ? {} : { tags, rationale: $("why").value, seconds: this.seconds };
    return { item, choice, annotator: this.annotator, ...details };
  }

  send(choice = this.choice, item = this.item.key) {
    const body = this.body(choice, item);
    this.lastSent = JSON.stringify(body);
    return this.outbox.send(body);
  }

  async go() {
    if (this.phase !== "after") return;
    this.phase = "wait";
    if (JSON.stringify(this.body(this.choice, this.item.key)) !== this.lastSent) this.send();
    await this.next();
  }

  async undo() {
    if (this.phase === "wait") return;
    const item = this.phase === "after" ? this.item.key : this.last;
    if (!item) return;
    this.phase = "wait";
    this.send("withdrawn", item);
    await this.next();
  }

  trouble(text) {
    $("trouble").textContent = text;
    $("trouble").hidden = !text;
  }

  // ---------------------------------------------------------------- keys

  key(event) {
    const writes = event.target instanceof Element && event.target.closest("textarea, input");
    if (writes || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if ($("zoom").open) {
      this.zoom.key(key, event);
      return;
    }
    const button = document.querySelector(`#choices button[data-key="${CSS.escape(key)}"]`);
    const tag = document.querySelector(`#tags button[data-key="${CSS.escape(key)}"]`);
    if (button) button.click();
    else if (key === "Enter") {
      // On a button that has the focus, Enter presses it; on a tag it goes on, and space presses.
      if (event.target instanceof HTMLButtonElement && event.target.dataset.tag === undefined) return;
      this.go();
    } else if (key === "z") this.zoom.open(0);
    else if (this.phase === "after" && tag) tag.click();
    else if (this.phase === "after" && key === "w") $("why").focus();
    else if (this.phase === "after" && key === "t") document.querySelector("#tags button")?.focus();
    else return;
    event.preventDefault();
  }

  writing(event) {
    if (event.isComposing) return;
    if (event.key === "Escape") event.target.blur();
    else if (event.key === "Enter" && !event.shiftKey) {
      event.target.blur();
      this.go();
    } else return;
    event.preventDefault();
  }
}

// ------------------------------------------------------------------ what is not sent yet

class Outbox {
  constructor(base, annotator, trouble) {
    this.base = base;
    this.key = `bon-outbox ${base} ${annotator}`;
    this.trouble = trouble;
    this.replies = new Map();
    this.sending = Promise.resolve();
  }

  rows() { return JSON.parse(remembered(this.key) || "[]"); }

  keep(rows) { remember(this.key, JSON.stringify(rows)); }

  // What the server replied to it; null where it refused.
  async send(body) {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    const event = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    this.keep([...this.rows(), { ...body, event }]);
    await this.flush();
    const reply = this.replies.get(event) || null;
    this.replies.delete(event);
    return reply;
  }

  // Everything that waits is sent, in order, before this ends.
  flush() {
    this.sending = this.sending.then(() => this.drain());
    return this.sending;
  }

  async drain() {
    for (let rows = this.rows(); rows.length; rows = this.rows()) {
      const { event } = rows[0];
      this.replies.set(event, await this.post("answers", rows[0]));
      this.keep(this.rows().filter((row) => row.event !== event));
    }
  }

  // A reply of the server, however long it takes; null where it refuses this request for good.
  async post(what, body) {
    for (let wait = 500; ; wait = Math.min(2 * wait, 8000)) {
      try {
        const answer = await fetch(`${this.base}/${what}`, {
          method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
        });
        const reply = await answer.json();
        if (answer.ok) {
          this.trouble(this.refused || "");
          return reply;
        }
        const problem = reply.error ? reply.error.message : `status ${answer.status}`;
        if (answer.status === 401) this.trouble("Your session has ended: sign in in another tab. Your answers wait here.");
        else if (answer.status < 500 && answer.status !== 429) {
          this.trouble(`Not accepted: ${problem}`);
          if (what === "answers") {
            this.refused = `Not accepted: ${problem}`;
            return null;
          }
        } else this.trouble(`Not sent yet (${problem}); trying again.`);
      } catch {
        this.trouble("The server does not answer; your answer waits here and is sent again.");
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

// Seconds that an item was in sight.
class Clock {
  start() { this.total = 0; this.since = document.hidden ? null : performance.now(); }

  tick() {
    if (document.hidden && this.since !== null) { this.total += performance.now() - this.since; this.since = null; }
    else if (!document.hidden && this.since === null) this.since = performance.now();
  }

  seconds() {
    const now = this.since === null ? 0 : performance.now() - this.since;
    return Math.round(this.total + now) / 1000;
  }
}

class Zoom {
  constructor() {
    this.box = $("zoom");
    this.sources = [];
    for (const button of this.box.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => this.by(Number(button.dataset.zoom)));
    }
    $("zoomed").addEventListener("click", () => this.by(1));
  }

  images(sources) {
    this.sources = sources;
    $("images").replaceChildren(...sources.map((src, at) => {
      const button = make("button", { type: "button", class: "picture", "aria-label": `Enlarge image ${at + 1}` },
        make("img", { src, alt: `Image ${at + 1}` }));
      button.addEventListener("click", () => this.open(at));
      return button;
    }));
  }

  open(at) {
    if (at >= this.sources.length) return;
    this.at = at;
    this.scale = 1;
    $("zoomed").src = this.sources[at];
    this.size();
    if (!this.box.open) this.box.showModal();
  }

  by(step) {
    if (step === 0) { this.box.close(); return; }
    this.scale = Math.min(8, Math.max(0.5, this.scale * (step > 0 ? 1.5 : 1 / 1.5)));
    this.size();
  }

  size() { $("zoomed").style.width = `${100 * this.scale}%`; }

  key(key, event) {
    if (key === "z" || key === "Escape") {
      if (key === "z" && this.at + 1 < this.sources.length) this.open(this.at + 1);
      else this.box.close();
    } else if (key === "+" || key === "=") this.by(1);
    else if (key === "-") this.by(-1);
    else return;
    event.preventDefault();
  }
}

// In a private window nothing outlives the tab, but the tab goes on.
const ELSE = new Map();

function remembered(key) {
  if (ELSE.has(key)) return ELSE.get(key);
  try { return localStorage.getItem(key); } catch { return null; }
}

function remember(key, value) {
  try { localStorage.setItem(key, value); } catch { ELSE.set(key, value); }
}

new Labelling($("annotate"));
