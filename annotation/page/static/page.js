// The page: draws one task, reads keys, taps and drags, and sends each answer until it is stored.
// Text from outside is only ever put into text nodes.
"use strict";

const $ = (id) => document.getElementById(id);
const QUIET = 500; // ms after something is drawn in which nothing ends it: a double press is one answer
const VERDICTS = { present: ["Yes", "y"], absent: ["No", "n"], unsure: ["Unsure", "u"] };
const FORMS = { "": "how it is said: leave open", explicit: "said openly", implicit: "one concludes it" };
const PEOPLE = { seeker: "Seeker", recommender: "Recommender", plot: "Plot" };
const COARSE = matchMedia("(pointer: coarse)").matches;
const words = new Intl.Segmenter(undefined, { granularity: "word" });
const marking = $("marking"), typed = $("words"); // they move into the card whose words are being marked

// `cur` is the task on the page. said: slug -> {verdict, form, spans, added}; at: the card in turn; picking: its words
// are being marked; first: the first of them; adding: the list of traits is open; cover: its warning stands alone;
// spent: ms before it was put aside; aside: text -> what was said of it until it changed, or another came; since: drawn
const S = { practice: [], tasks: [], unsent: [], past: [], cur: null, aside: new Map(), busy: false, since: 0 };

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

// ---- server
async function ask(path, body) { // a status of 500 or more: nobody knows what became of it
  const headers = { "Content-Type": "application/json" };
  try {
    const reply = await fetch(path, body && { method: "POST", body: JSON.stringify(body), headers });
    return { status: reply.status, said: reply.status === 200 ? await reply.json() : { why: await reply.text() } };
  } catch {
    return { status: 503, said: { why: "No connection." } };
  }
}

async function load() {
  const token = location.hash.slice(1), linked = token ? await ask("session", { token }) : { status: 204 };
  if (linked.status < 500) history.replaceState(null, "", location.pathname); // the link's secret is in no history
  const { status, said } = linked.status === 204 ? await ask("tasks") : linked;
  if (status === 200) merge(said);
  else if (status < 500) shut(said.why);
  else if (S.traits) say(said.why);
  else plain("No connection", "The page cannot be reached just now.", button("Try again", "", load));
}

function merge(said) {
  if (!S.traits) {
    const { taxonomy, practice, traits, name } = said;
    Object.assign(S, { taxonomy, practice, traits: new Map(traits.map((trait) => [trait.slug, trait])) });
    $("who").textContent = name;
    if (!said.done && said.left) $("guidelines").showModal();
  }
  if (said.taxonomy !== S.taxonomy) return S.unsent.length || location.reload(); // it lists the former traits
  S.tasks = said.tasks;
  const sent = new Set(S.unsent.map((each) => each.body.task)).size;
  $("progress").max = said.done + said.left || 1;
  $("progress").value = said.done + sent;
  $("count").textContent = `${said.done + sent} read, ${Math.max(0, said.left - sent)} to go`;
  const lost = S.cur;
  if (lost && (lost.again || lost.task.right || S.tasks.some((task) => task.key === lost.task.key))) return;
  leave();
  next();
  if (lost) say("The task that was here has changed, or was answered elsewhere.");
}

async function send() {
  if (S.busy) return;
  S.busy = true;
  for (let tries = 0; S.unsent.length; ) {
    const sent = S.unsent[0], { status, said } = await ask("answer", sent.body);
    if (status >= 500 || status === 401) { // whoever opens a new link in this browser sends it with that
      if (status === 401) shut(said.why, "Open the new link in this browser, too.");
      say("Not stored yet: your answer is kept here and sent again. Please leave this page open.");
      await new Promise((over) => setTimeout(over, Math.min(1000 * 2 ** tries++, 15000)));
      continue;
    }
    S.unsent.shift();
    if (status !== 200) for (const slug in sent.body.blind) sent.cur.said.get(slug).blind = sent.body.blind[slug];
    if (status === 200) merge(said);
    else if (status === 409) {
      S.aside.set(textOf(sent.cur.task), { ...sent.cur, spent: 1000 * sent.body.seconds });
      await load();
    } else {
      sent.cur.task.n -= 1;
      S.past = S.past.filter((each) => each !== sent);
      leave();
      draw(sent.cur);
    }
    if (status !== 200 || tries) say(said.why ?? "Saved.");
    tries = 0;
  }
  S.busy = false;
}

// ---- a task
function next() {
  const task = S.practice[0] ?? S.tasks.find((each) => !S.unsent.some((sent) => sent.body.task === each.key));
  if (task) return draw(fresh(task));
  S.cur = null;
  if (S.unsent.length) return plain("Saving ...", "Your answers are kept here until they are stored.");
  say("");
  plain("All read", "Nothing is left to read for now. Thank you.", button("Look again", "", load, first));
}

const textOf = (task) => task.key.split("-", 2).join("-"); // the part of a key that stays when other traits are asked

function fresh(task) { // with what was said of the same text, where nobody has answered elsewhere since
  const cards = new Map(task.cards.map((card) => [card.trait, { ...card, verdict: card.own }]));
  const { said = [], note = "", spent = 0, read, ...was } = S.aside.get(textOf(task)) ?? {};
  for (const [slug, each] of said) {
    const card = cards.get(slug), shows = !task.rules && each.verdict === "present"; // null is undefined here
    if (card ? each.verdict && card.own == each.own : shows) cards.set(slug, { ...each, added: !card });
  }
  S.aside.delete(textOf(task));
  return { task, said: cards, note, spent, read, cover: was.task?.key === task.key ? was.cover : task.warning !== "" };
}

function draw(cur) {
  const { task, note } = S.cur = cur, uncover = () => ready() && draw({ ...cur, cover: false });
  S.since = performance.now();
  say("");
  if (cur.cover) return plain(task.warning, "Nobody asks why.", button("Show it", "Enter", uncover, first));
  $("talk").replaceChildren(el("h2", {}, task.head), ...task.turns.map(({ role, text }, turn) => {
    const theirs = role === task.speaker;
    return el("div", { className: theirs ? "turn theirs" : "turn" },
      el("b", {}, PEOPLE[role] || role), el("p", {}, theirs ? spell(text, turn) : text));
  }));
  $("ask").replaceChildren(...task.ask.split("\n").map((line) =>
    el("p", { className: task.rejected.includes(line) ? "need" : "" }, line)));
  $("note").value = note;
  $("notes").open = note !== "";
  work({ at: Math.max(0, unanswered()), picking: false, adding: false });
  $("talk").scrollTop = 0;
  scrollTo(0, 0);
}

function leave() { // what was answered on the present task is kept until that comes again
  const spent = S.cur?.spent + performance.now() - S.since;
  if (S.cur && !S.cur.again) S.aside.set(textOf(S.cur.task), { ...S.cur, spent });
  S.cur = null;
}

const shut = (...why) => { leave(); plain("Nothing to see here", ...why); };

function plain(title, text, ...more) {
  frame(false);
  $("talk").replaceChildren(el("div", { className: "plain" }, el("h2", {}, title), el("p", {}, text), more));
}

function frame(working) { // what is beside and below the conversation
  $("work").hidden = $("done").hidden = !working;
  $("rather").hidden = !S.cur;
  $("foot").hidden = !S.cur && !S.past.length;
  $("back").disabled = !S.past.length;
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
const unanswered = () => [...S.cur.said.values()].findIndex((each) => !each.verdict || needs(each));
const inTurn = () => [...S.cur.said.values()][S.cur.at];
const turn = (n) => n !== S.cur.at && n >= 0 && n < S.cur.said.size && work({ at: n, picking: false });
const spoken = ({ verdict, form, spans }) => ({ verdict, form, spans });
const between = ({ span: a }, { span: b }) =>
  ({ turn: a.turn, start: Math.min(a.start, b.start), end: Math.max(a.end, b.end) });

function work(changes) {
  const { task, said, adding } = Object.assign(S.cur, changes), focus = document.activeElement.id;
  $("cards").replaceChildren(...[...said.keys()].map(card));
  $("nothing").hidden = said.size > 0 || adding;
  $("add").hidden = adding || task.rules;
  $("adding").hidden = !adding;
  $("done").firstChild.textContent = said.size ? "Done " : "I have read it all ";
  frame(true);
  marks();
  $(focus)?.focus({ preventScroll: true });
  bring($("cards").querySelector(".at"));
}

function marks() { // the words of every card, and of the card in turn
  const each = [...S.cur.said.values()].filter(({ verdict }) => verdict !== "absent");
  for (const node of $("talk").querySelectorAll("i")) {
    const { turn, start, end } = node.span;
    const marked = each.filter(({ spans }) => spans.some((s) => s.turn === turn && s.start < end && start < s.end));
    node.classList.toggle("shown", marked.length > 0);
    node.classList.toggle("now", marked.includes(inTurn()));
  }
  document.body.classList.toggle("picking", S.cur.picking);
  bring($("talk").querySelector(".now"));
}

function card(slug, n) {
  const { said, at, task } = S.cur, each = said.get(slug), { name, definition, hint } = S.traits.get(slug);
  const here = n === at, yes = each.verdict === "present", picking = here && S.cur.picking;
  const choices = Object.entries(VERDICTS).map(([verdict, [label, key]]) => button(label, here && key,
    () => answer(slug, verdict), { ariaPressed: each.verdict === verdict, id: `${slug}-${verdict}` }));
  const form = el("select", { ariaLabel: "How it is said", onchange: () => { each.form = form.value || null; } },
    Object.entries(FORMS).map(([value, label]) => el("option", { value, selected: value === each.form }, label)));
  const come = (event) => event.target.closest("button") || turn(n);
  return el("section", { className: here ? "card at" : "card", ariaLabel: name, onclick: come },
    el("h3", {}, name), el("p", {}, definition), el("p", { className: "soft" }, hint), quotes(each.spans.map(quote)),
    picking ? marking : needs(each) && el("p", { className: "need" }, "Mark the words that show it."),
    el("div", { className: "row", role: "group", ariaLabel: "Your answer" },
      each.added ? button("Remove", "", () => answer(slug, "absent")) : choices,
      yes && task.kind === "sensitivity" && form,
      (yes || each.verdict === "unsure") && !picking
        && button("Mark other words", here && "e", () => choose(n), { className: "quiet" })),
    each.verdict && each.said?.length > 0
      && [el("p", { className: "soft" }, "What reviewers said; you may change your answer:"), quotes(each.said)]);
}

function answer(slug, verdict) {
  const { said, task, at } = S.cur, each = said.get(slug);
  const voted = task.rules && each.verdict && each.verdict !== verdict && !needs(each); // the votes are on the page
  if (voted) each.blind ??= spoken(each);
  if (each.added && verdict === "absent") said.delete(slug);
  else each.verdict = verdict;
  say("");
  if (said.has(slug) && needs(each)) return choose([...said.keys()].indexOf(slug));
  const left = unanswered();
  work({ at: left < 0 ? Math.min(at, said.size - 1) : left, picking: false });
}

// ---- another trait, and its words
function add(adding = true, dragged = []) {
  $("trait").value = "";
  sift();
  work({ adding, dragged, picking: false });
  bring($("adding"), true);
  $("trait").focus({ preventScroll: true });
}

function sift() { // the traits whose name, slug or definition holds what was typed
  const part = $("trait").value.trim().toLowerCase();
  const rank = (trait) => ["name", "slug", "definition"].findIndex((key) => trait[key].toLowerCase().includes(part));
  const matching = [...S.traits.values()].filter((trait) => !S.cur.said.has(trait.slug) && rank(trait) >= 0);
  matching.sort((a, b) => rank(a) - rank(b));
  if (part) say(matching.length ? `Enter takes: ${matching[0].name}` : "No other trait matches.");
  $("traits").replaceChildren(...matching.map(({ slug, name, definition }) =>
    el("li", {}, button([name, " ", el("span", { className: "soft" }, definition)], "", () => take(slug)))));
}

function take(slug) {
  const each = { verdict: "present", form: null, spans: S.cur.dragged, added: true };
  S.cur.said.set(slug, each);
  choose(S.cur.said.size - 1, needs(each));
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
  if (!S.cur || S.cur.cover || event.target.closest("button, input, select, textarea, summary, dialog")) return;
  const chosen = getSelection(), nodes = [...$("talk").querySelectorAll(".theirs i:not(.gap)")];
  const dragged = nodes.filter((node) => !chosen.isCollapsed && chosen.containsNode(node, true));
  const word = dragged[0] ?? event.target.closest("i:not(.gap)"), { picking, first: tapped, task } = S.cur;
  const last = dragged.findLast((node) => node.span.turn === word.span.turn);
  if (last && (picking || last !== word && !task.rules)) {
    chosen.removeAllRanges(); // a selected text would be dragged the next time
    if (picking) set([between(word, last)], true);
    else add(true, [between(word, last)]);
  } else if (word && picking) {
    const from = tapped?.span.turn === word.span.turn ? tapped : null;
    set([between(from ?? word, word)], from !== null);
    if (from) return;
    S.cur.first = word;
    say("That is the first word: tap the last one, or go on if it is one word.");
  }
});

// ---- the end of a task
function unread() { // whether the end of the conversation was not on the screen so far; then it is moved there
  const last = $("talk").lastChild.getBoundingClientRect().bottom;
  S.cur.read ||= last < Math.min($("talk").getBoundingClientRect().bottom, innerHeight) + 24;
  if (!S.cur.read) for (const pane of [$("talk"), window]) pane.scrollBy({ top: innerHeight * 0.7 });
  return !S.cur.read;
}

function done() {
  if (!ready()) return;
  if (unread()) return say("There was more below: read on, then Enter again.");
  const at = unanswered();
  if (at < 0) return finish("read");
  work({ at });
  say(inTurn().verdict ? "Mark the words that show it first." : "One more answer first: yes, no or unsure.");
}

function finish(outcome) {
  if (!S.cur || !ready()) return;
  const { task, said, note, spent } = S.cur, read = outcome === "read", verdicts = {}, blind = {};
  if (task.right) return feedback(task, said, read);
  for (const [slug, each] of read ? said : []) {
    verdicts[slug] = spoken(each);
    if (each.blind) blind[slug] = each.blind;
    each.blind = null; // sent once
  }
  const seconds = Math.min(86399, (spent + performance.now() - S.since) / 1000); // a tab may be open for days
  const nonce = crypto.getRandomValues(new Uint32Array(4)).join("-");
  const body = { task: task.key, n: task.n++, nonce, outcome, verdicts, blind, note, seconds };
  const sent = { cur: { ...S.cur, spent: 0 }, body };
  S.unsent.push(sent);
  S.past.push(sent);
  next();
  send();
}

function feedback({ right, why, turns }, said, read) { // on a practice task: nothing is sent
  S.practice.shift();
  S.cur = null;
  S.since = performance.now();
  const lines = [...new Set([...Object.keys(right), ...said.keys()])].map((slug) => {
    const ours = right[slug] ?? "absent", yours = said.get(slug)?.verdict ?? "absent";
    const alike = ours === yours ? "as we would" : `we would say ${ours}`;
    return el("p", {}, el("strong", {}, S.traits.get(slug).name), `: you said ${yours}, ${alike}.`);
  });
  const label = S.practice.length ? "Next practice" : "On to your tasks";
  plain(read ? "What we would say" : "That is always fine", `“${turns[0].text}”`, read && lines, el("p", {}, why),
    button(label, "Enter", () => ready() && next(), { ...first, id: "on" }));
  $("on").focus();
}

function back() {
  const sent = S.past.pop();
  leave();
  draw({ ...sent.cur, again: true });
  say("Your last answer stands until you give another.");
}

// ---- keys: each presses the button that shows it
document.addEventListener("keydown", (event) => {
  const { key, target } = event, step = { j: 1, k: -1 }[key];
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || $("guidelines").open) return;
  if (key !== "Escape" && target.closest("input, textarea, select, summary")) return;
  if (key === "Enter" && target.closest("button")) return;
  const shown = [...document.querySelectorAll("button")].filter((each) => each.checkVisibility());
  const pressed = shown.find((each) => each.querySelector("kbd")?.textContent === key);
  if (pressed) pressed.click();
  else if (step && !$("work").hidden) turn(S.cur.at + step);
  else return;
  event.preventDefault();
});

const on = (id, kind, act) => $(id).addEventListener(kind, act);
on("done", "click", done);
on("rather", "click", () => finish("rather_not"));
on("back", "click", back);
on("guide", "click", () => $("guidelines").showModal());
on("guidelines", "close", () => { S.since = performance.now(); });
on("note", "input", () => { S.cur.note = $("note").value; });
on("add", "click", () => add());
on("trait", "input", sift);
on("adding", "reset", () => add(false));
on("adding", "submit", () => $("traits").querySelector("button")?.click());
on("words", "input", () => { const span = locate(typed.value); if (span) set([span]); });
on("marking", "reset", () => set(inTurn().spans, true));
on("marking", "submit", () => {
  if (inTurn().spans.length) set(inTurn().spans, true);
  else say("These words stand in none of the seeker's turns.");
});
addEventListener("hashchange", () => location.hash && load()); // a new link, opened in this tab
addEventListener("beforeunload", (event) => { if (S.unsent.length) event.preventDefault(); });

load();
