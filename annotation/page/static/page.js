// The page: draws one task, reads keys, taps and drags, and sends each answer until it is stored.
// Text from outside is only ever put into text nodes.
"use strict";

const $ = (id) => document.getElementById(id);
const QUIET = 500; // ms after something is drawn in which nothing ends it: a double press is one answer
const VERDICTS = { present: ["Yes", "y"], absent: ["No", "n"], unsure: ["Unsure", "u"] };
const FORMS = { "": "how it is said: leave open", explicit: "said openly", implicit: "one concludes it" };
const COARSE = matchMedia("(pointer: coarse)").matches;
const words = new Intl.Segmenter(undefined, { granularity: "word" });
const marking = $("marking"), typed = $("words"); // they move into the card whose words are being marked

// `cur` is the task on the page. cards: {trait, verdict, form, spans}; at: the card in turn; picking: its words are
// being marked; first: the first of them; adding: the list of traits is open; cover: its warning stands alone;
// spent: ms before it was put aside; aside: text -> what was said of it until it changed, or another came; since: drawn
const S = { past: [], cur: null, aside: new Map(), since: 0 };

function el(tag, properties, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children.flat(2).filter(Boolean));
  return node;
}

const button = (label, key, onclick, more) =>
  el("button", { type: "button", onclick, ...more }, label, key && [" ", el("kbd", {}, key)]);
const first = { className: "first" };
const quotes = (texts) => texts.map((text) => el("blockquote", {}, text));
const say = (text) => { $("status").textContent = text; };
const bring = (node, onPhones) => (onPhones || !COARSE) && node?.scrollIntoView({ block: "nearest" });
const ready = () => performance.now() - S.since > QUIET;
const spent = () => S.cur.spent + performance.now() - S.since;
const count = () => { // the time so far
  if (S.cur && !$("guidelines").open) S.cur.spent = spent(); // the time with them is not the task's
  S.since = performance.now();
};

// ---- server
function ask(path, body) { // the status and the reply; 500 or more: nobody knows what became of it
  const headers = { "Content-Type": "application/json" }, signal = AbortSignal.timeout(60000);
  return fetch(path, { signal, ...(body && { method: "POST", body: JSON.stringify(body), headers }) })
    .then(async (reply) => [reply.status, reply.ok ? await reply.json() : { why: await reply.text() }])
    .catch(() => [503, { why: "No connection." }]);
}

async function load() {
  const token = location.hash.slice(1), [status, said] = await ask("tasks", token ? { token } : null);
  if (status < 500) history.replaceState(null, "", location.pathname); // the link's secret is in no history
  leave();
  if (status === 200) merge(said);
  else if (status < 500) plain("Nothing to see here", said.why);
  else plain("No connection", "The page cannot be reached just now.", button("Try again", "", load));
}

function merge({ name, taxonomy, traits, practice, done, left, task }) {
  if (!S.traits && !done && left) $("guidelines").showModal();
  if (taxonomy !== S.taxonomy) { // no answer on the former traits can be changed
    Object.assign(S, { taxonomy, traits: new Map(traits.map((trait) => [trait.slug, trait])), past: [] });
  }
  S.practice ??= practice;
  S.task = task;
  $("who").textContent = name;
  Object.assign($("progress"), { max: done + left || 1, value: done });
  $("count").textContent = `${done} read, ${left} to go`;
  next();
}

// ---- a task
function next() {
  const task = S.practice[0] ?? S.task;
  if (task) return draw(fresh(task));
  S.cur = null;
  plain("All read", "Nothing is left to read for now. Thank you.", button("Look again", "", load, first));
}

function fresh(task) { // with what was said of the same text, where nobody has answered elsewhere since
  const { cards: former = [], note = "", spent = 0, read } = S.aside.get(task.text) ?? {};
  const kept = new Map(former.filter((each) => each.verdict).map((each) => [each.trait, each]));
  const cards = task.cards.map((card) => {
    const was = kept.get(card.trait);
    kept.delete(card.trait);
    return was && was.own == card.own ? was : { ...card, verdict: card.own }; // null is undefined here
  });
  const shows = ({ trait, verdict }) => !task.rules && verdict !== "absent" && S.traits.has(trait);
  cards.push(...[...kept.values()].filter(shows));
  S.aside.delete(task.text);
  return { task, cards, note, spent, read, again: false, cover: task.warning !== "" };
}

function draw(cur) {
  const { task, note } = S.cur = cur, uncover = () => ready() && draw({ ...cur, cover: false });
  S.since = performance.now();
  if (cur.cover) return plain(task.warning, "Nobody asks why.", button("Show it", "Enter", uncover, first));
  $("talk").replaceChildren(el("h2", {}, task.head), ...task.turns.map(({ role, text }, turn) => {
    const theirs = role === task.speaker;
    return el("div", { className: theirs ? "turn theirs" : "turn" },
      el("b", {}, role), el("p", {}, theirs ? spell(text, turn) : text));
  }));
  $("ask").replaceChildren(...task.ask.split("\n").map((line) =>
    el("p", { className: task.rejected.includes(line) ? "need" : "" }, line)));
  $("note").value = note;
  $("notes").open = note !== "";
  work({ at: Math.max(0, unanswered()), picking: false, adding: false });
  $("talk").focus(); // no button of the last task has it any more
  $("talk").scrollTop = 0;
  scrollTo(0, 0);
}

function leave() { // what was answered on the present task is kept until that comes again
  if (S.cur && !S.cur.again) S.aside.set(S.cur.task.text, { ...S.cur, spent: spent() });
  S.cur = null;
  frame(false);
}

function plain(title, text, ...more) {
  frame(false);
  $("talk").replaceChildren(el("div", { className: "plain" }, el("h2", {}, title), el("p", {}, text), more));
  $("talk").focus({ preventScroll: true });
}

function frame(working) { // what is beside and below the conversation
  say("");
  $("work").hidden = $("done").hidden = !working;
  $("rather").hidden = !S.cur;
  $("back").hidden = !S.past.length;
}

function spell(text, turn) { // every word, sign and gap as an element that knows its place in code points
  let end = 0;
  return [...words.segment(text)].map(({ segment }) => {
    const span = { turn, start: end, end: end += [...segment].length };
    return el("i", { className: segment.trim() ? "" : "gap", span }, segment);
  });
}

const quote = ({ turn, start, end }) => [...S.cur.task.turns[turn].text].slice(start, end).join("");
const needs = (each) => each.verdict === "present" && !each.spans.length && S.cur.task.kind === "sensitivity";
const unanswered = () => S.cur.cards.findIndex((each) => !each.verdict || needs(each));
const inTurn = () => S.cur.cards[S.cur.at];
const turn = (n) => n !== S.cur.at && S.cur.cards[n] && work({ at: n, picking: false });
const spoken = ({ verdict, form, spans }) => ({ verdict, form, spans });
const between = ({ span: a }, { span: b }) =>
  ({ turn: a.turn, start: Math.min(a.start, b.start), end: Math.max(a.end, b.end) });

function merged(spans) { // as a person reads them: those that overlap are one; what is sent stays as it was marked
  const pieces = [];
  for (const span of [...spans].sort((a, b) => a.turn - b.turn || a.start - b.start)) {
    const last = pieces.at(-1);
    if (last?.turn === span.turn && span.start < last.end) last.end = Math.max(last.end, span.end);
    else pieces.push({ ...span });
  }
  return pieces;
}

function work(changes) {
  const { task, cards, adding } = Object.assign(S.cur, changes), focus = document.activeElement.id;
  $("cards").replaceChildren(...cards.map(card));
  $("nothing").hidden = cards.length > 0 || adding;
  $("add").hidden = adding || task.rules;
  $("adding").hidden = !adding;
  $("done").firstChild.textContent = cards.length ? "Done " : "I have read it all ";
  frame(true);
  marks();
  $(focus)?.focus({ preventScroll: true });
  bring($("cards").querySelector(".at"));
}

function marks() { // the words of every card, and of the card in turn
  const each = S.cur.cards.filter(({ verdict }) => verdict !== "absent");
  for (const node of $("talk").querySelectorAll("i")) {
    const { turn, start, end } = node.span;
    const marked = each.filter(({ spans }) => spans.some((s) => s.turn === turn && s.start < end && start < s.end));
    node.classList.toggle("shown", marked.length > 0);
    node.classList.toggle("now", marked.includes(inTurn()));
  }
  document.body.classList.toggle("picking", S.cur.picking);
  bring($("talk").querySelector(".now"));
}

function card(each, n) {
  const { at, task, picking } = S.cur, { name, definition, hint } = S.traits.get(each.trait), here = n === at;
  const marked = here && picking, yes = each.verdict === "present";
  const choices = Object.entries(VERDICTS).map(([verdict, [label, key]]) => button(label, here && key,
    () => answer(n, verdict), { ariaPressed: each.verdict === verdict, id: `${each.trait}-${verdict}` }));
  const form = el("select", { ariaLabel: "How it is said", onchange: () => { each.form = form.value || null; } },
    Object.entries(FORMS).map(([value, label]) => el("option", { value, selected: value === each.form }, label)));
  const come = (event) => event.target.closest("button") || turn(n);
  return el("section", { className: here ? "card at" : "card", ariaLabel: name, onclick: come },
    el("h3", {}, name), el("p", {}, definition), el("p", { className: "soft" }, hint),
    quotes(merged(each.spans).map(quote)),
    marked ? marking : needs(each) && el("p", { className: "need" }, "Mark the words that show it."),
    el("div", { className: "row", role: "group", ariaLabel: "Your answer" },
      choices, yes && task.kind === "sensitivity" && form,
      (yes || each.verdict === "unsure") && !marked
        && button("Mark other words", here && "e", () => choose(n), { className: "quiet" })),
    each.verdict && each.said?.length > 0
      && [el("p", { className: "soft" }, "What reviewers said; you may change your answer:"), quotes(each.said)]);
}

function answer(n, verdict) {
  const { cards, task, at } = S.cur, each = cards[n];
  const voted = task.rules && each.verdict && each.verdict !== verdict && !needs(each); // the votes are on the page
  if (voted) each.blind ??= spoken(each);
  each.verdict = verdict;
  if (needs(each)) return choose(n);
  work({ at: unanswered() < 0 ? at : unanswered(), picking: false });
}

// ---- another trait, and its words
function add(adding = true) {
  $("trait").value = "";
  sift();
  work({ adding, picking: false });
  bring($("adding"), true);
  $("trait").focus({ preventScroll: true });
}

function sift() { // the traits whose name, slug or definition holds what was typed, in this order
  const part = $("trait").value.trim().toLowerCase();
  const rank = ({ name, slug, definition }) => [name, slug, definition].join(" ").toLowerCase().indexOf(part);
  const others = [...S.traits.values()].filter(({ slug }) => !S.cur.cards.some((each) => each.trait === slug));
  const matching = others.filter((trait) => rank(trait) >= 0).sort((a, b) => rank(a) - rank(b));
  say(!part ? "" : matching.length ? `Enter takes: ${matching[0].name}` : "No other trait matches.");
  $("traits").replaceChildren(...matching.map(({ slug, name, definition }) =>
    el("li", {}, button([name, " ", el("span", { className: "soft" }, definition)], "", () => take(slug)))));
}

function take(trait) {
  const many = S.cur.cards.push({ trait, verdict: "present", form: null, spans: [] });
  choose(many - 1, needs(S.cur.cards[many - 1]));
}

function choose(at, picking = true) {
  typed.value = "";
  work({ at, picking, adding: false, first: null });
  if (picking && COARSE) bring($("talk").querySelector(".theirs"), true);
  else if (picking) typed.focus();
}

function set(spans, over) {
  inTurn().spans = spans;
  say("");
  if (!over) return marks();
  document.activeElement.blur();
  work({ picking: false });
}

function locate(text) { // the first whole words of the seeker's that begin with what was typed
  const plainly = (parts) => parts.join("").toLowerCase().replace(/\s+/g, " "), wanted = plainly([text.trim()]);
  for (const row of wanted ? $("talk").querySelectorAll(".theirs p") : []) {
    const nodes = [...row.children], texts = nodes.map((node) => node.textContent);
    const from = nodes.findIndex((_, n) => plainly(texts.slice(n, n + 2 * wanted.length + 99)).startsWith(wanted));
    const to = nodes.findIndex((_, n) => n >= from && plainly(texts.slice(from, n + 1)).length >= wanted.length);
    if (from >= 0) return between(nodes[from], nodes[to]);
  }
}

document.addEventListener("click", (event) => { // the end of a drag, or a tap: the first word, then the last
  if (!S.cur?.picking || event.target.closest("button, input, select, textarea, summary, dialog")) return;
  const chosen = getSelection(), nodes = [...$("talk").querySelectorAll(".theirs i:not(.gap)")];
  const dragged = nodes.filter((node) => !chosen.isCollapsed && chosen.containsNode(node, true));
  const word = dragged[0] ?? event.target.closest("i:not(.gap)");
  const from = dragged.findLast((node) => node.span.turn === word.span.turn) ?? S.cur.first;
  if (!word) return;
  chosen.removeAllRanges(); // a selected text would be dragged the next time
  if (from?.span.turn === word.span.turn) return set([between(from, word)], true);
  set([between(word, word)]);
  S.cur.first = word;
  say("That is the first word: tap the last one, or go on if it is one word.");
});

// ---- the end of a task
function done() {
  if (!ready()) return;
  const last = $("talk").lastChild.getBoundingClientRect().bottom, at = unanswered();
  S.cur.read ||= last < Math.min($("talk").getBoundingClientRect().bottom, innerHeight) + 24;
  if (!S.cur.read) { // the end of the conversation was not on the screen so far
    for (const pane of [$("talk"), window]) pane.scrollBy({ top: innerHeight * 0.7 });
    return say("There was more below: read on, then Enter again.");
  }
  if (at < 0) return finish("read");
  work({ at });
  say(inTurn().verdict ? "Mark the words that show it first." : "One more answer first: yes, no or unsure.");
}

async function finish(outcome) {
  if (!S.cur || !ready()) return;
  const cur = S.cur, { task, note, again } = cur, cards = outcome === "read" ? cur.cards : [];
  if (task.right) return feedback(task, cards, outcome === "read");
  const verdicts = Object.fromEntries(cards.map((each) => [each.trait, spoken(each)]));
  const blind = Object.fromEntries(cards.filter((each) => each.blind).map((each) => [each.trait, each.blind]));
  const seconds = Math.min(86399, spent() / 1000); // a tab may be open for days
  $("main").inert = $("foot").inert = true; // until it is stored or refused, nothing on the page can be changed
  if (outcome === "rather_not") plain("Leaving it", "Your answer is being stored.");
  const [status, said] = await send({ task: task.key, again, outcome, verdicts, blind, note, seconds });
  $("main").inert = $("foot").inert = false;
  if (status === 200) {
    for (const each of cards) each.blind = null; // sent once
    S.aside.delete(task.text);
    S.past.push({ ...cur, spent: 1000 * seconds });
    return merge(said);
  }
  S.cur = Object.assign(cur, { spent: 1000 * seconds, again: again && status !== 409 });
  S.since = performance.now();
  if (status === 409) leave(); // no card or key acts on it while the next task is fetched
  await (status === 409 ? load() : draw(cur));
  say(said.why);
}

async function send(body, pause = 1000) { // as often as it takes until the server has answered
  const slow = setTimeout(say, 1000, "Storing your answer …"), [status, said] = await ask("answer", body);
  clearTimeout(slow);
  if (status < 500 && status !== 401) return [status, said];
  if (status === 401) { // whoever opens a new link in this browser sends it with that
    leave();
    plain("Not stored yet", "Your answer is sent once a new link is open in this browser.");
  }
  say(`${status === 401 ? said.why : "Not stored yet."} Your answer is kept here and sent again: keep the page open.`);
  await new Promise((over) => setTimeout(over, pause));
  return send(body, Math.min(2 * pause, 15000));
}

function feedback({ right, why, turns }, cards, read) { // on a practice task: nothing is sent
  S.practice.shift();
  S.cur = null;
  S.since = performance.now();
  const given = Object.fromEntries(cards.map(({ trait, verdict }) => [trait, verdict]));
  const lines = Object.keys({ ...right, ...given }).map((slug) => {
    const ours = right[slug] ?? "absent", yours = given[slug] ?? "absent";
    const alike = ours === yours ? "as we would" : `we would say ${ours}`;
    return el("p", {}, el("strong", {}, S.traits.get(slug).name), `: you said ${yours}, ${alike}.`);
  });
  const label = S.practice.length ? "Next practice" : "On to your tasks";
  plain(read ? "What we would say" : "That is always fine", `“${turns[0].text}”`, read && lines, el("p", {}, why),
    button(label, "Enter", () => ready() && next(), first));
}

function back() {
  leave();
  draw({ ...S.past.pop(), again: true });
  say("Your last answer stands until you give another.");
}

// ---- keys: each presses the button that shows it
document.addEventListener("keydown", (event) => {
  const { key, target } = event, step = { j: 1, k: -1 }[key];
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || $("guidelines").open || $("main").inert) return;
  if (key !== "Escape" && target.closest("input, textarea, select, summary")) return;
  if (key === "Enter" && target.closest("button")) return;
  const named = [...document.querySelectorAll("button > kbd")].filter((kbd) => kbd.textContent === key);
  const pressed = named.find((kbd) => kbd.parentNode.checkVisibility()); // on a phone the keys themselves are hidden
  if (pressed) pressed.parentNode.click();
  else if (step && !$("work").hidden) turn(S.cur.at + step);
  else return;
  event.preventDefault();
});

const on = (id, kind, act) => $(id).addEventListener(kind, act);
on("done", "click", done);
on("rather", "click", () => finish("rather_not"));
on("back", "click", back);
on("add", "click", () => add());
on("guide", "click", () => {
  count();
  $("guidelines").showModal();
});
on("guidelines", "close", () => { S.since = performance.now(); });
on("note", "input", () => { S.cur.note = $("note").value; });
on("trait", "input", sift);
on("adding", "reset", () => add(false));
on("adding", "submit", () => $("traits").querySelector("button")?.click());
on("words", "input", () => { const span = locate(typed.value); if (span) set([span]); });
on("marking", "reset", () => set(inTurn().spans, true));
on("marking", "submit", () => inTurn().spans.length ? set(inTurn().spans, true)
  : say("These words stand in none of the seeker's turns."));
addEventListener("hashchange", () => location.hash && load()); // a new link, opened in this tab
addEventListener("visibilitychange", () => { // nobody reads a hidden tab
  if (document.hidden) count();
  else S.since = performance.now();
});
addEventListener("beforeunload", (event) => { if ($("main").inert) event.preventDefault(); });

load();
