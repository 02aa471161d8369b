// The page: draws one task, reads keys, taps and drags, and sends each answer until it is stored.
// Text from outside is only ever put into textContent.
"use strict";

const $ = (id) => document.getElementById(id);
const QUIET = 500; // ms after a task is drawn in which no key ends it: the second half of a double press is nobody's answer
const VERDICTS = { present: ["Yes", "y"], absent: ["No", "n"], unsure: ["Unsure", "u"] };
const COARSE = matchMedia("(pointer: coarse)").matches;

const S = { name: "", traits: new Map(), tasks: [], unsent: [], past: [], cur: null, busy: false, known: false };
// of the current task: said: slug -> {verdict, form, spans, added}; at: the card in turn; pick: the card whose words are
// being marked; first: the first of its words; adding: the list of traits is open; cover: its warning stands alone

function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null && child !== false));
  return node;
}

const key = (letter) => el("kbd", {}, letter);
const button = (label, letter, onclick, more = {}) =>
  el("button", { type: "button", onclick, ...more }, label, letter ? " " : null, letter ? key(letter) : null);
const say = (text) => { $("status").textContent = text; };

// ---- server

async function ask(path, body) {
  const post = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const reply = await fetch(path, { credentials: "same-origin", ...post });
  const said = reply.status === 204 ? {} : await reply.json();
  return { status: reply.status, said };
}

async function open() {
  try {
    const token = location.hash.slice(1);
    if (token) {
      history.replaceState(null, "", location.pathname);
      const { status, said } = await ask("session", { token });
      if (status !== 204) return shut(said.why);
    }
    const { status, said } = await ask("start");
    if (status !== 200) return shut(said.why);
    S.name = said.name;
    S.traits = new Map(said.traits.map((trait) => [trait.slug, trait]));
    $("who").textContent = said.name;
    markdown(said.guidelines, $("guidetext"));
    $("guide").hidden = false;
    merge(said);
    if (!said.done && said.left) $("guidelines").showModal();
  } catch {
    plain("No connection", "The page cannot be reached just now.", button("Try again", "", () => location.reload()));
  }
}

function shut(why) {
  S.cur = null;
  S.known = false;
  plain("Nothing to see here", why || "This link is not valid.");
}

function merge(said) {
  S.known = true;
  const mine = new Set(S.unsent.map((each) => each.task.key));
  S.tasks = said.tasks.filter((task) => !mine.has(task.key));
  const left = Math.max(0, said.left - mine.size);
  $("progress").hidden = false;
  $("progress").max = said.done + said.left || 1;
  $("progress").value = said.done + mine.size;
  $("count").textContent = `${said.done + mine.size} read, ${left} to go`;
  if (S.cur && (S.cur.again || S.tasks.some((task) => task.key === S.cur.task.key))) return;
  if (S.cur) say("The task on this page has changed or was answered elsewhere: here is the next.");
  next();
}

function next() {
  const task = S.tasks.find((each) => !S.unsent.some((sent) => sent.task.key === each.key));
  if (task) return draw(task);
  S.cur = null;
  if (S.unsent.length) return plain("Saving ...", "Your answers are kept here until they are stored.");
  plain("All read", "Nothing is left to read for now. Thank you.", button("Look again", "", refresh, { class: "first" }));
}

async function refresh() {
  try {
    const { status, said } = await ask("tasks");
    if (status === 200) merge(said);
    else shut(said.why);
  } catch {
    say("No connection.");
  }
}

async function send() {
  if (S.busy) return;
  S.busy = true;
  for (let tries = 0; S.unsent.length; ) {
    const sent = S.unsent[0];
    let reply = null;
    try {
      reply = await ask("answer", sent.body);
    } catch { /* no connection */ }
    if (!reply || reply.status >= 500) {
      tries += 1;
      say("No connection: your answer is kept here and sent again. Please leave this page open.");
      await new Promise((over) => setTimeout(over, Math.min(1000 * 2 ** (tries - 1), 15000)));
      continue;
    }
    if (tries && reply.status === 200) say("Saved.");
    tries = 0;
    S.unsent.shift();
    if (reply.status === 401) { S.unsent = []; shut(reply.said.why); break; }
    if (reply.status === 200) { merge(reply.said); continue; }
    if (reply.status === 422) { // never stored: it comes back with its answers
      sent.task.n -= 1;
      S.past = S.past.filter((each) => each !== sent);
      draw(sent.task, sent);
    }
    say(reply.said.why);
    if (reply.status === 409) await refresh();
  }
  S.busy = false;
}

// ---- a task

function draw(task, before = null) {
  const said = before ? before.said : new Map(task.cards.map((card) => [card.trait, { verdict: card.own, form: card.form, spans: card.spans }]));
  S.cur = { task, said, note: before ? before.note : "", again: Boolean(before), at: 0, pick: null, first: null, adding: false };
  S.cur.cover = task.severe.length > 0 && !before;
  S.cur.since = performance.now();
  S.cur.at = Math.max(0, [...said.values()].findIndex((each) => !each.verdict));
  say("");
  talk();
  work();
  $("talk").scrollTop = 0;
  scrollTo(0, 0);
}

function plain(title, text, ...more) {
  $("foot").hidden = !S.past.length;
  $("done").hidden = $("rather").hidden = true;
  $("talk").replaceChildren(el("div", { class: "plain" }, el("h2", {}, title), el("p", {}, text), ...more));
  $("work").replaceChildren();
  $("work").hidden = true;
}

const words = new Intl.Segmenter(undefined, { granularity: "word" });

function spell(text, turn) { // every word, sign and gap as an element that knows its place in code points
  let at = 0;
  return [...words.segment(text)].map(({ segment }) => {
    const start = at;
    at += [...segment].length;
    return el("i", { class: segment.trim() ? "" : "gap", "data-turn": turn, "data-start": start, "data-end": at }, segment);
  });
}

function talk() {
  const { task, cover } = S.cur;
  $("work").hidden = cover;
  if (cover) {
    plain("This one may be hard to read", `${task.severe.join("; ")}. You may leave it; nobody asks why.`,
      button("Show it", "Enter", uncover, { class: "first" }));
    $("foot").hidden = $("rather").hidden = false;
    return;
  }
  const people = { seeker: "Seeker", recommender: "Recommender", plot: "Plot" };
  const turns = task.turns.map((turn, n) => {
    const theirs = turn.role === task.speaker;
    const text = el("p", {}, ...(theirs ? spell(turn.text, n) : [turn.text]));
    return el("div", { class: theirs ? "turn theirs" : "turn" }, el("b", {}, people[turn.role] || turn.role), text);
  });
  const known = task.known.map((line) => el("p", { class: "soft" }, line));
  $("talk").replaceChildren(...(task.head ? [el("h2", {}, task.head)] : []), ...turns, ...known);
  marks();
}

function marks() {
  const { said, pick, at } = S.cur;
  const now = pick || [...said.keys()][at];
  for (const node of $("talk").querySelectorAll("i")) {
    const inside = (span) => span.turn === +node.dataset.turn && span.start < +node.dataset.end && +node.dataset.start < span.end;
    node.classList.toggle("shown", [...said.values()].some((each) => each.verdict !== "absent" && each.spans.some(inside)));
    node.classList.toggle("now", Boolean(said.get(now)?.verdict !== "absent" && said.get(now)?.spans.some(inside)));
  }
  document.body.classList.toggle("picking", Boolean(pick));
}

function quote(span) {
  return [...S.cur.task.turns[span.turn].text].slice(span.start, span.end).join("");
}

const needs = (each) => each.verdict === "present" && !each.spans.length && S.cur.task.kind === "sensitivity";

function work() {
  const { task, said, adding, cover } = S.cur;
  if (cover) return;
  const focus = document.activeElement?.dataset?.keep;
  const asks = task.rules ? "Please rule on this: does it hold for the seeker?"
    : task.kind === "item_flag" ? "Would this item break one of these sensitivities?"
    : "Does this person let us see that something would hurt, frighten or sicken them?";
  const cards = [...said.keys()].map(card);
  const none = !said.size && !adding && el("p", { class: "soft" }, "Nothing is proposed here. Read to the end; if nothing shows, you are done.");
  const more = !task.rules && !adding && button("Add another", "a", add, { "data-keep": "add" });
  const note = el("textarea", { rows: 2, "aria-label": "Note for the team", oninput: (event) => { S.cur.note = event.target.value; } });
  note.value = S.cur.note;
  const folded = el("details", { open: Boolean(S.cur.note) }, el("summary", {}, "Note for the team"), note);
  $("work").replaceChildren(el("h2", {}, asks), ...cards, none || "", adding ? list() : more || "", folded);
  $("foot").hidden = $("done").hidden = $("rather").hidden = false;
  $("back").disabled = !S.past.length;
  $("done").firstChild.textContent = said.size ? "Done " : "I have read it all ";
  marks();
  if (focus) $("work").querySelector(`[data-keep="${focus}"]`)?.focus({ preventScroll: true });
}

function card(slug, n) {
  const { said, at, pick, task } = S.cur;
  const trait = S.traits.get(slug), each = said.get(slug), asked = task.cards.find((one) => one.trait === slug);
  const choice = (verdict) => {
    const [label, letter] = VERDICTS[verdict];
    return button(label, n === at ? letter : "", () => answer(slug, verdict), { "aria-pressed": String(each.verdict === verdict), "data-keep": `${slug}-${verdict}` });
  };
  const kept = each.verdict === "present" || each.verdict === "unsure";
  const choices = each.added ? [button("Remove", "", () => answer(slug, "absent"))] : Object.keys(VERDICTS).map(choice);
  const form = el("select", { "aria-label": "How it is said", onchange: (event) => { each.form = event.target.value || null; } },
    el("option", { value: "" }, "how it is said: leave open"), el("option", { value: "explicit" }, "said openly"), el("option", { value: "implicit" }, "one concludes it"));
  form.value = each.form || "";
  const other = kept && pick !== slug && button("Mark other words", n === at ? "e" : "", () => choose(slug), { class: "quiet" });
  return el("section", { class: n === at ? "card at" : "card", "aria-label": trait.name, onclick: () => turn(n) },
    el("h3", {}, trait.name),
    el("p", {}, trait.definition),
    el("p", { class: "soft" }, trait.hint),
    ...(each.verdict === "absent" ? asked.spans : each.spans).map((span) => el("blockquote", {}, quote(span))),
    pick === slug ? search(slug) : needs(each) && el("p", { class: "need" }, "Mark the words that show it."),
    el("div", { class: "row", role: "group", "aria-label": "Your answer" }, ...choices, each.verdict === "present" && task.kind === "sensitivity" && form, other),
    each.verdict && asked?.said.length > 0 && el("div", {}, el("p", { class: "soft" }, "What reviewers said; you may change your answer:"), ...asked.said.map((text) => el("blockquote", {}, text))));
}

function turn(n) {
  if (!S.cur || S.cur.at === n) return;
  S.cur.at = n;
  for (const [m, node] of [...$("work").querySelectorAll(".card")].entries()) node.classList.toggle("at", m === n);
  marks();
  work();
}

function answer(slug, verdict) {
  const { said, task } = S.cur, each = said.get(slug);
  if (each.added && verdict === "absent") said.delete(slug);
  else each.verdict = verdict;
  if (S.cur.pick && (S.cur.pick !== slug || verdict === "absent")) S.cur.pick = null;
  const open = [...said.values()].findIndex((one) => !one.verdict);
  S.cur.at = open >= 0 ? open : [...said.keys()].indexOf(slug);
  if (task.rules) S.cur.at = [...said.keys()].indexOf(slug); // an adjudicator reads what others said first
  say("");
  if (said.has(slug) && needs(each)) return choose(slug);
  work();
  bring();
}

function bring() { // the words of the card in turn, and the card, where they can be seen
  for (const node of [$("talk").querySelector("i.now"), $("work").querySelector(".card.at")])
    if (node && !COARSE) node.scrollIntoView({ block: "nearest" });
}

function uncover() {
  S.cur.cover = false;
  S.cur.since = performance.now();
  talk();
  work();
}

// ---- another trait, and its words

function add() {
  S.cur.adding = true;
  S.cur.pick = null;
  work();
  const input = $("work").querySelector("[role=combobox]");
  input.parentNode.scrollIntoView({ block: "nearest" });
  input.focus({ preventScroll: true });
}

function list() {
  const input = el("input", { type: "search", role: "combobox", "aria-expanded": "true", "aria-controls": "traits", "aria-autocomplete": "list",
    "aria-label": "Which one? Type a part of its name", placeholder: "Which one? Type a part of its name", autocomplete: "off" });
  const options = el("ul", { role: "listbox", id: "traits", "aria-label": "Sensitivities" });
  let found = [], at = 0;
  const show = () => {
    options.replaceChildren(...found.map((trait, n) => el("li", { role: "option", id: `trait-${n}`, "aria-selected": String(n === at), onclick: () => take(trait.slug) },
      trait.name, " ", el("span", { class: "soft" }, trait.definition))));
    input.setAttribute("aria-activedescendant", found.length ? `trait-${at}` : "");
    options.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const sift = () => {
    const typed = input.value.trim().toLowerCase();
    const rank = (trait) => [trait.name.toLowerCase(), trait.slug, trait.definition.toLowerCase()].findIndex((text) => text.includes(typed));
    found = [...S.traits.values()].filter((trait) => !S.cur.said.has(trait.slug) && rank(trait) >= 0).sort((a, b) => rank(a) - rank(b));
    at = 0;
    show();
  };
  input.addEventListener("input", sift);
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      at = (at + (event.key === "ArrowDown" ? 1 : -1) + found.length) % (found.length || 1);
      show();
    } else if (event.key === "Enter" && found.length) take(found[at].slug);
    else if (event.key === "Escape") { S.cur.adding = false; work(); }
    else return;
    event.preventDefault();
  });
  sift();
  return el("div", { class: "card at" }, input, options, el("div", { class: "row" }, button("Close", "Esc", () => { S.cur.adding = false; work(); })));
}

function take(slug) {
  S.cur.adding = false;
  S.cur.said.set(slug, { verdict: "present", form: null, spans: S.cur.dragged || [], added: true });
  S.cur.dragged = null;
  S.cur.at = S.cur.said.size - 1;
  if (needs(S.cur.said.get(slug))) return choose(slug);
  work();
  bring();
}

function choose(slug) {
  S.cur.pick = slug;
  S.cur.first = null;
  S.cur.at = [...S.cur.said.keys()].indexOf(slug);
  work();
  $("work").querySelector(".card.at")?.scrollIntoView({ block: "nearest" });
  if (!COARSE) $("words").focus();
  else $("talk").querySelector(".theirs")?.scrollIntoView({ block: "nearest" });
}

function search(slug) {
  const input = el("input", { id: "words", type: "search", autocomplete: "off", "data-keep": "words",
    "aria-label": "Words of the seeker that show it: type them, or tap the first and the last", placeholder: "Tap the first and last word, drag, or type" });
  input.addEventListener("input", () => {
    const span = locate(input.value);
    if (span) S.cur.said.get(slug).spans = [span];
    marks();
    $("talk").querySelector("i.now")?.scrollIntoView({ block: "nearest" });
  });
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter" || event.key === "Escape") {
      event.preventDefault();
      if (event.key === "Enter" && !S.cur.said.get(slug).spans.length) return say("These words stand in none of the seeker's turns.");
      S.cur.pick = null;
      say("");
      document.activeElement.blur();
      work();
    }
  });
  return input;
}

function locate(typed) { // the first whole words of the seeker's that begin with what was typed
  const wanted = typed.trim().toLowerCase().split(/\s+/).join(" ");
  if (!wanted) return null;
  for (const [n, row] of [...$("talk").querySelectorAll(".turn")].entries()) {
    const nodes = [...row.querySelectorAll("i:not(.gap)")];
    const text = S.cur.task.turns[n].text;
    for (const [m, first] of nodes.entries()) {
      const rest = [...text].slice(+first.dataset.start).join("").toLowerCase().split(/\s+/).join(" ");
      if (!rest.startsWith(wanted)) continue;
      let last = first, length = 0;
      for (const node of nodes.slice(m)) {
        last = node;
        length = quote({ turn: n, start: +first.dataset.start, end: +node.dataset.end }).split(/\s+/).join(" ").length;
        if (length >= wanted.length) break;
      }
      return between(first, last);
    }
  }
  return null;
}

function between(one, two) {
  const [first, last] = +one.dataset.start <= +two.dataset.start ? [one, two] : [two, one];
  return { turn: +first.dataset.turn, start: +first.dataset.start, end: +last.dataset.end };
}

const wordAt = (event) => document.elementFromPoint(event.clientX, event.clientY)?.closest("#talk .theirs i:not(.gap)");
let from = null, to = null; // of a drag

$("talk").addEventListener("pointerdown", (event) => {
  from = to = event.pointerType === "touch" ? null : wordAt(event);
});
$("talk").addEventListener("pointermove", (event) => {
  const word = from && event.buttons ? wordAt(event) : null;
  if (!word || word === to || word.dataset.turn !== from.dataset.turn) return;
  to = word;
  if (S.cur.pick) set([between(from, to)]);
});
$("talk").addEventListener("pointerup", () => {
  if (!from || from === to) return;
  const span = between(from, to);
  if (S.cur.pick) { set([span]); S.cur.pick = null; work(); }
  else if (!S.cur.task.rules) { S.cur.dragged = [span]; add(); }
});
$("talk").addEventListener("click", (event) => { // a tap: the first word, then the last
  if (!S.cur || (from && from !== to)) { from = null; return; }
  const word = wordAt(event);
  if (!word || !S.cur.pick) return;
  const first = S.cur.first;
  if (first && first.isConnected && first.dataset.turn === word.dataset.turn) {
    set([between(first, word)]);
    S.cur.pick = S.cur.first = null;
    return work();
  }
  S.cur.first = word;
  set([between(word, word)]);
  say("That is the first word: tap the last one, or go on if it is one word.");
});

function set(spans) {
  S.cur.said.get(S.cur.pick).spans = spans;
  say("");
  marks();
}

// ---- the end of a task

const ready = () => performance.now() - S.cur.since > QUIET;

function below() { // how much of the conversation was not on the screen
  const last = $("talk").querySelector(".turn:last-of-type");
  return last ? last.getBoundingClientRect().bottom - Math.min($("talk").getBoundingClientRect().bottom, innerHeight) : 0;
}

function done() {
  if (!S.cur || !ready()) return;
  if (S.cur.cover) return uncover();
  const { said } = S.cur;
  S.cur.read = S.cur.read || below() < 24;
  if (!S.cur.read) {
    $("talk").scrollBy({ top: $("talk").clientHeight * 0.8 });
    scrollBy({ top: innerHeight * 0.7 });
    return say("There was more below: read on, then Enter again.");
  }
  const open = [...said.entries()].findIndex(([, each]) => !each.verdict || needs(each));
  if (open >= 0) {
    S.cur.at = open;
    work();
    bring();
    return say([...said.values()][open].verdict ? "Mark the words that show it first." : "One more answer first: yes, no or unsure.");
  }
  finish("read");
}

function finish(outcome) {
  if (!S.cur || !ready()) return;
  const { task, said, note, since } = S.cur;
  const verdicts = Object.fromEntries([...said].map(([slug, { verdict, form, spans }]) => [slug,
    { verdict, form: verdict === "present" ? form : null, spans: verdict === "absent" ? [] : spans }]));
  const body = { task: task.key, n: task.n, nonce: crypto.randomUUID(), outcome, verdicts: outcome === "read" ? verdicts : {},
    note: outcome === "read" ? note : "", seconds: Math.round((performance.now() - since) / 100) / 10 };
  const sent = { task, said, note, body };
  task.n += 1;
  S.unsent.push(sent);
  S.past.push(sent);
  S.cur = null;
  say("");
  next();
  send();
}

function back() {
  const last = S.past.pop();
  if (!last) return say("There is no answer of yours to go back to.");
  draw(last.task, last);
  say("Your last answer stands until you give another.");
}

// ---- keys

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || $("guidelines").open) return;
  if (event.target.closest("input, textarea, select, summary") && event.key !== "Escape") return;
  if (event.key === "Enter" && event.target.closest("button")) return;
  const verdict = Object.keys(VERDICTS).find((name) => VERDICTS[name][1] === event.key);
  const slug = S.cur && !S.cur.cover ? [...S.cur.said.keys()][S.cur.at] : null;
  if (verdict && slug) answer(slug, verdict);
  else if (event.key === "Enter") done();
  else if (event.key === "s" && S.cur) finish("rather_not");
  else if (event.key === "z") back();
  else if (event.key === "a" && S.cur && !S.cur.cover && !S.cur.task.rules) add();
  else if (event.key === "e" && slug && S.cur.said.get(slug).verdict !== "absent" && S.cur.said.get(slug).verdict) choose(slug);
  else if (event.key === "g" && S.known) $("guidelines").showModal();
  else if (event.key === "Escape" && S.cur?.pick) { S.cur.pick = null; work(); }
  else if ((event.key === "j" || event.key === "k") && slug) turn(Math.min(Math.max(S.cur.at + (event.key === "j" ? 1 : -1), 0), S.cur.said.size - 1));
  else return;
  event.preventDefault();
});

$("done").addEventListener("click", done);
$("rather").addEventListener("click", () => finish("rather_not"));
$("back").addEventListener("click", back);
$("guide").addEventListener("click", () => $("guidelines").showModal());
$("guidelines").addEventListener("close", () => { if (S.cur) S.cur.since = performance.now(); });
addEventListener("beforeunload", (event) => { if (S.unsent.length) event.preventDefault(); });

// ---- the guidelines: headings, lists, tables' absence, bold and code of our own Markdown

function markdown(text, into) {
  const inline = (line) => line.split(/(\*\*[^*]+\*\*|`[^`]+`)/).map((part) =>
    part.startsWith("**") ? el("strong", {}, part.slice(2, -2)) : part.startsWith("`") ? el("kbd", {}, part.slice(1, -1)) : part);
  const blocks = text.replace(/\n {2,}/g, " ").split(/\n(?=\n|- |\d+\. |#)/);
  let open = null;
  for (const block of blocks.map((each) => each.trim().replace(/\n/g, " ")).filter(Boolean)) {
    const [, sign, rest] = block.match(/^(#+|-|\d+\.) (.*)$/) || [null, "", block];
    const tag = sign === "-" ? "ul" : /^\d/.test(sign) ? "ol" : null;
    if (!tag) open = null;
    else if (open?.localName !== tag) into.append((open = el(tag)));
    (tag ? open : into).append(el(tag ? "li" : sign ? (sign.length > 1 ? "h3" : "h2") : "p", {}, ...inline(rest)));
  }
}

open();
