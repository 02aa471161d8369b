// The page: draws one task, reads keys, taps and drags, and sends each answer until it is stored.
// Text from outside is only ever put into text nodes.
"use strict";

const $ = (id) => document.getElementById(id);
const QUIET = 500; // ms after a task is drawn in which no key ends it: the second half of a double press is nobody's answer
const VERDICTS = { present: ["Yes", "y"], absent: ["No", "n"], unsure: ["Unsure", "u"] };
const COARSE = matchMedia("(pointer: coarse)").matches;
const words = new Intl.Segmenter(undefined, { granularity: "word" });

// `cur` is the task on the page. said: slug -> {verdict, form, spans, added}; at: the card in turn; pick: the card whose
// words are being marked; first: the first of them; adding: the list of traits is open; cover: its warning stands alone;
// spent: ms before it was put aside. `aside`: text -> what was said of it when another task came, or when it changed
const S = { traits: new Map(), practice: [], tasks: [], unsent: [], past: [], cur: null, aside: new Map(), busy: false };

function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child || child === ""));
  return node;
}

const button = (label, letter, onclick, more = {}) =>
  el("button", { type: "button", onclick, ...more }, label, letter && [" ", el("kbd", {}, letter)]);
const quotes = (texts) => texts.map((text) => el("blockquote", {}, text));
const say = (text) => { $("status").textContent = text; };

// ---- server

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  const reply = await fetch(path, body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers });
  return { status: reply.status, said: reply.status === 204 ? {} : await reply.json() };
}

async function open() {
  try {
    const token = location.hash.slice(1);
    history.replaceState(null, "", location.pathname); // the link's secret is in no history
    const opened = token ? await ask("session", { token }) : { status: 204 };
    const { status, said } = opened.status === 204 ? await ask("start") : opened;
    if (status !== 200) return shut(said.why);
    S.traits = new Map(said.traits.map((trait) => [trait.slug, trait]));
    S.practice = said.practice;
    $("who").textContent = said.name;
    $("guide").hidden = $("progress").hidden = false;
    markdown(said.guidelines, $("guidetext"));
    merge(said);
    if (!said.done && said.left) $("guidelines").showModal();
  } catch {
    plain("No connection", "The page cannot be reached just now.", button("Try again", "", () => location.reload()));
  }
}

function shut(why, ...more) {
  putAside();
  S.cur = null;
  plain("Nothing to see here", why, ...more);
}

function putAside() {
  if (S.cur && !S.cur.again) S.aside.set(textOf(S.cur.task), { ...S.cur, spent: S.cur.spent + performance.now() - S.cur.since });
}

const textOf = (task) => task.key.split("-", 2).join("-"); // the part of a key that stays when other traits are asked

function fitting(task, before) { // what was said of the same text, as far as it is asked now, or shows another trait
  const said = new Map(task.cards.map((card) => [card.trait, { ...card, verdict: card.own }]));
  for (const [slug, each] of before) {
    const added = !said.has(slug);
    if (added ? !task.rules && each.verdict === "present" : each.verdict) said.set(slug, { ...each, added });
  }
  return said;
}

const waits = (task) => S.unsent.some((sent) => sent.task.key === task.key);

function merge(said) {
  S.taxonomy ??= said.taxonomy;
  if (said.taxonomy !== S.taxonomy) return S.unsent.length ? undefined : location.reload(); // it lists the former traits
  S.tasks = said.tasks;
  const sent = new Set(S.unsent.map((each) => each.task.key)).size;
  $("progress").max = said.done + said.left || 1;
  $("progress").value = said.done + sent;
  $("count").textContent = `${said.done + sent} read, ${Math.max(0, said.left - sent)} to go`;
  if (S.cur && (S.cur.again || S.cur.task.right || S.tasks.some((task) => task.key === S.cur.task.key))) return;
  const lost = S.cur;
  putAside();
  next();
  if (lost) say("The task that was here has changed, or was answered elsewhere.");
}

function next() {
  const task = S.practice[0] ?? S.tasks.find((each) => !waits(each));
  if (task) return draw(task);
  S.cur = null;
  if (S.unsent.length) return plain("Saving ...", "Your answers are kept here until they are stored.");
  say("");
  plain("All read", "Nothing is left to read for now. Thank you.", button("Look again", "", refresh, { class: "first" }));
}

async function refresh() {
  try {
    const { status, said } = await ask("tasks");
    if (status === 200) merge(said);
    else if (status < 500) shut(said.why);
    else say(said.why); // the workspace cannot be read just now
  } catch { say("No connection."); }
}

async function send() {
  if (S.busy) return;
  S.busy = true;
  for (let tries = 0; S.unsent.length; ) {
    const sent = S.unsent[0];
    const { status, said } = await ask("answer", sent.body).catch(() => ({ status: 503 }));
    if (status >= 500) {
      say("No connection: your answer is kept here and sent again. Please leave this page open.");
      await new Promise((over) => setTimeout(over, Math.min(1000 * 2 ** tries++, 15000)));
      continue;
    }
    if (status === 401) { // whoever opens a new link in this browser sends it with that
      S.busy = false;
      return shut(said.why, el("p", {}, "Your answer is kept here as long as this page is open. Open the new link in this browser, too."),
        button("Send it again", "", send, { class: "first" }));
    }
    S.unsent.shift();
    if (status === 200) {
      merge(said);
      if (tries) say("Saved.");
      tries = 0;
    } else {
      for (const [slug, word] of Object.entries(sent.body.blind)) sent.said.get(slug).blind = word;
      if (status === 409) {
        S.aside.set(textOf(sent.task), { ...sent, spent: 1000 * sent.body.seconds });
        await refresh();
      } else { // nothing was stored: it comes back with its answers
        sent.task.n -= 1;
        S.past = S.past.filter((each) => each !== sent);
        draw(sent.task, sent);
      }
      say(said.why);
    }
  }
  S.busy = false;
}

// ---- a task

function draw(task, before = null) {
  if (before) putAside();
  const aside = before ? null : S.aside.get(textOf(task));
  const said = before?.said ?? fitting(task, aside?.said ?? []);
  const at = Math.max(0, [...said.values()].findIndex((each) => !each.verdict));
  const cover = task.severe.length > 0 && !before && (aside?.task.key !== task.key || aside.cover);
  S.cur = { task, said, at, note: (before ?? aside)?.note ?? "", again: Boolean(before), cover, read: aside?.read };
  Object.assign(S.cur, { since: performance.now(), spent: aside?.spent ?? 0 });
  if (aside) S.aside.delete(textOf(task));
  say("");
  talk();
  work();
  $("talk").scrollTop = 0;
  scrollTo(0, 0);
}

function plain(title, text, ...more) {
  $("foot").hidden = !S.past.length;
  $("done").hidden = $("rather").hidden = $("work").hidden = true;
  $("talk").replaceChildren(el("div", { class: "plain" }, el("h2", {}, title), el("p", {}, text), more));
}

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
  if (cover) {
    const names = `${task.severe.join("; ")}. You may leave it; nobody asks why.`;
    plain("This one may be hard to read", names, button("Show it", "Enter", uncover, { class: "first" }));
    $("foot").hidden = $("rather").hidden = false;
    return;
  }
  const people = { seeker: "Seeker", recommender: "Recommender", plot: "Plot" };
  const turns = task.turns.map(({ role, text }, n) => el("div", { class: role === task.speaker ? "turn theirs" : "turn" },
    el("b", {}, people[role] || role), el("p", {}, role === task.speaker ? spell(text, n) : text)));
  const known = task.known.map((line) => el("p", { class: "soft" }, line));
  const above = [...task.rejected.map((line) => el("p", { class: "need" }, line)), task.head && el("h2", {}, task.head)];
  $("talk").replaceChildren(...above.filter(Boolean), ...turns, ...known);
}

function marks() {
  const { said, pick, at } = S.cur;
  const now = said.get(pick || [...said.keys()][at]);
  for (const node of $("talk").querySelectorAll("i")) {
    const { turn, start, end } = node.dataset;
    const inside = (each) => each && each.verdict !== "absent" && each.spans.some((s) => s.turn === +turn && s.start < +end && +start < s.end);
    node.classList.toggle("shown", [...said.values()].some(inside));
    node.classList.toggle("now", Boolean(inside(now)));
  }
  document.body.classList.toggle("picking", Boolean(pick));
}

const quote = (span) => [...S.cur.task.turns[span.turn].text].slice(span.start, span.end).join("");
const needs = (each) => each.verdict === "present" && !each.spans.length && S.cur.task.kind === "sensitivity";

function work() {
  const { task, said, adding, cover } = S.cur;
  if (cover) return;
  const focus = document.activeElement?.dataset?.keep;
  const asks = task.kind === "item_flag" ? "Would this item break one of these sensitivities?"
    : "Does this person let us see that something would hurt, frighten or sicken them?";
  const note = el("textarea", { rows: 2, "aria-label": "Note for the team", oninput: () => { S.cur.note = note.value; } }, S.cur.note);
  $("work").replaceChildren(el("h2", {}, task.rules ? `Please rule: ${asks}` : asks), ...[...said.keys()].map(card),
    said.size || adding ? "" : el("p", { class: "soft" }, "Nothing is proposed here. Read to the end; if nothing shows, you are done."),
    adding ? list() : task.rules ? "" : button("Add another", "a", add, { "data-keep": "add" }),
    el("details", { open: Boolean(S.cur.note) }, el("summary", {}, "Note for the team"), note));
  for (const id of ["work", "foot", "done", "rather"]) $(id).hidden = false;
  $("back").disabled = !S.past.length;
  $("done").firstChild.textContent = said.size ? "Done " : "I have read it all ";
  marks();
  if (focus) $("work").querySelector(`[data-keep="${focus}"]`)?.focus({ preventScroll: true });
}

function card(slug, n) {
  const { said, at, pick, task } = S.cur;
  const { name, definition, hint } = S.traits.get(slug), each = said.get(slug);
  const asked = task.cards.find((one) => one.trait === slug), here = n === at, yes = each.verdict === "present";
  const choices = Object.entries(VERDICTS).map(([verdict, [label, letter]]) => button(label, here && letter, () => answer(slug, verdict),
    { "aria-pressed": String(each.verdict === verdict), "data-keep": `${slug}-${verdict}` }));
  const form = el("select", { "aria-label": "How it is said", onchange: () => { each.form = form.value || null; } },
    [["", "how it is said: leave open"], ["explicit", "said openly"], ["implicit", "one concludes it"]].map(([value, label]) => el("option", { value }, label)));
  form.value = each.form || "";
  return el("section", { class: here ? "card at" : "card", "aria-label": name, onclick: () => turn(n) },
    el("h3", {}, name), el("p", {}, definition), el("p", { class: "soft" }, hint),
    quotes((each.verdict === "absent" ? asked.spans : each.spans).map(quote)),
    pick === slug ? search(slug) : needs(each) && el("p", { class: "need" }, "Mark the words that show it."),
    el("div", { class: "row", role: "group", "aria-label": "Your answer" },
      each.added ? button("Remove", "", () => answer(slug, "absent")) : choices, yes && task.kind === "sensitivity" && form,
      (yes || each.verdict === "unsure") && pick !== slug && button("Mark other words", here && "e", () => choose(slug), { class: "quiet" })),
    each.verdict && asked?.said.length > 0 && [el("p", { class: "soft" }, "What reviewers said; you may change your answer:"), quotes(asked.said)]);
}

function turn(n) {
  if (S.cur.at === n || S.cur.said.size <= n) return;
  S.cur.at = n;
  work();
}

function answer(slug, verdict) {
  const { said, pick } = S.cur, each = said.get(slug);
  if (S.cur.task.rules && each.verdict && each.verdict !== verdict && !needs(each)) each.blind ??= spoken(each); // the votes are seen
  if (each.added && verdict === "absent") said.delete(slug);
  else each.verdict = verdict;
  if (pick !== slug || verdict === "absent") S.cur.pick = null;
  const left = [...said.values()].findIndex((one) => !one.verdict);
  S.cur.at = Math.max(0, left >= 0 ? left : [...said.keys()].indexOf(slug));
  say("");
  if (said.has(slug) && needs(each)) return choose(slug);
  work();
  bring();
}

function bring() { // the words of the card in turn, and the card, to where they can be seen
  const seen = [$("talk").querySelector("i.now"), $("work").querySelector(".card.at")];
  for (const node of COARSE ? [] : seen) node?.scrollIntoView({ block: "nearest" });
}

function uncover() {
  S.cur.cover = false;
  S.cur.since = performance.now();
  talk();
  work();
}

// ---- another trait, and its words

function add(event, open = true) {
  S.cur.adding = open;
  S.cur.pick = null;
  if (!open) S.cur.dragged = null;
  work();
  const input = $("work").querySelector("[role=combobox]");
  input?.parentNode.scrollIntoView({ block: "nearest" });
  input?.focus({ preventScroll: true });
}

function list() {
  const label = "Which one? Type a part of its name";
  const input = el("input", { type: "search", role: "combobox", "aria-expanded": "true", "aria-controls": "traits", "aria-autocomplete": "list", "aria-label": label, placeholder: label, autocomplete: "off" });
  const options = el("ul", { role: "listbox", id: "traits", "aria-label": "Sensitivities" });
  let found = [], at = 0;
  const show = () => {
    options.replaceChildren(...found.map(({ slug, name, definition }, n) => el("li", { role: "option", id: `trait-${n}`, "aria-selected": String(n === at), onclick: () => take(slug) },
      name, " ", el("span", { class: "soft" }, definition))));
    input.setAttribute("aria-activedescendant", found.length ? `trait-${at}` : "");
    options.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const sift = () => {
    const typed = input.value.trim().toLowerCase();
    const rank = (trait) => [trait.name, trait.slug, trait.definition].findIndex((text) => text.toLowerCase().includes(typed));
    found = [...S.traits.values()].filter((trait) => !S.cur.said.has(trait.slug) && rank(trait) >= 0).sort((a, b) => rank(a) - rank(b));
    at = 0;
    show();
  };
  input.addEventListener("input", sift);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    event.stopPropagation();
    if (step && found.length) { at = (at + step + found.length) % found.length; show(); }
    else if (event.key === "Enter" && found.length) take(found[at].slug);
    else if (event.key === "Escape") add(event, false);
    else return;
    event.preventDefault();
  });
  sift();
  return el("div", { class: "card at" }, input, options, el("div", { class: "row" }, button("Close", "Esc", () => add(null, false))));
}

function take(slug) {
  const { said, dragged } = S.cur;
  said.set(slug, { verdict: "present", form: null, spans: dragged || [], added: true });
  S.cur.adding = S.cur.dragged = null;
  S.cur.at = said.size - 1;
  if (needs(said.get(slug))) return choose(slug);
  work();
  bring();
}

function choose(slug) {
  Object.assign(S.cur, { pick: slug, first: null, at: [...S.cur.said.keys()].indexOf(slug) });
  work();
  $("work").querySelector(".card.at").scrollIntoView({ block: "nearest" });
  if (COARSE) $("talk").querySelector(".theirs")?.scrollIntoView({ block: "nearest" });
  else $("words").focus();
}

function set(spans, over) {
  S.cur.said.get(S.cur.pick).spans = spans;
  say("");
  if (!over) return marks();
  S.cur.pick = S.cur.first = null;
  document.activeElement.blur();
  work();
}

function search(slug) {
  const input = el("input", { id: "words", type: "search", autocomplete: "off", "data-keep": "words", placeholder: "Tap the first and last word, drag, or type",
    "aria-label": "Words of the seeker that show it: type them, or tap the first and the last" });
  input.addEventListener("input", () => {
    const span = locate(input.value);
    if (span) set([span]);
    $("talk").querySelector("i.now")?.scrollIntoView({ block: "nearest" });
  });
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    const { spans } = S.cur.said.get(slug);
    if (event.key === "Enter" && !spans.length) say("These words stand in none of the seeker's turns.");
    else set(spans, true);
  });
  return input;
}

function locate(typed) { // the first whole words of the seeker's that begin with what was typed
  const wanted = typed.trim().toLowerCase().replace(/\s+/g, " ");
  for (const row of wanted ? $("talk").querySelectorAll(".theirs") : []) {
    const nodes = [...row.querySelectorAll("i")];
    const gap = (node) => node?.classList.contains("gap");
    const texts = nodes.map((node, n) => (gap(node) ? (gap(nodes[n - 1]) ? "" : " ") : node.textContent.toLowerCase()));
    const from = nodes.findIndex((node, n) => !gap(node) && texts.slice(n).join("").startsWith(wanted));
    const to = nodes.findIndex((node, n) => n >= from && texts.slice(from, n + 1).join("").length >= wanted.length);
    if (from >= 0) return between(nodes[from], nodes[to]);
  }
  return null;
}

function between(...ends) {
  const starts = ends.map((node) => +node.dataset.start), stops = ends.map((node) => +node.dataset.end);
  return { turn: +ends[0].dataset.turn, start: Math.min(...starts), end: Math.max(...stops) };
}

const wordAt = (event) => document.elementFromPoint(event.clientX, event.clientY)?.closest("#talk .theirs i:not(.gap)");
const drag = { from: null, to: null };

$("talk").addEventListener("pointerdown", (event) => {
  drag.from = drag.to = event.pointerType === "touch" || !S.cur ? null : wordAt(event);
});
$("talk").addEventListener("pointermove", (event) => {
  const word = drag.from && event.buttons ? wordAt(event) : null;
  if (!word || word.dataset.turn !== drag.from.dataset.turn) return;
  drag.to = word;
  if (S.cur.pick) set([between(drag.from, word)]);
});
$("talk").addEventListener("click", (event) => { // the end of a drag, or a tap: the first word, then the last
  const word = S.cur && wordAt(event), { from, to } = drag;
  if (from && from !== to) {
    if (S.cur.pick) set([between(from, to)], true);
    else if (!S.cur.task.rules) { S.cur.dragged = [between(from, to)]; add(); }
  } else if (word && S.cur.pick) {
    const first = S.cur.first?.dataset.turn === word.dataset.turn ? S.cur.first : null;
    set([between(first || word, word)], Boolean(first));
    if (first) return;
    S.cur.first = word;
    say("That is the first word: tap the last one, or go on if it is one word.");
  }
});

// ---- the end of a task

const ready = () => S.cur && performance.now() - S.cur.since > QUIET;

function unread() { // whether the end of the conversation was not on the screen so far; then it is moved there
  const last = [...$("talk").querySelectorAll(".turn")].pop().getBoundingClientRect().bottom;
  if (S.cur.read || last < Math.min($("talk").getBoundingClientRect().bottom, innerHeight) + 24) S.cur.read = true;
  else for (const pane of [$("talk"), window]) pane.scrollBy({ top: innerHeight * 0.7 });
  return !S.cur.read;
}

function done() {
  if (!ready()) return;
  if (S.cur.cover) return uncover();
  if (unread()) return say("There was more below: read on, then Enter again.");
  const { said } = S.cur, open = [...said.values()].findIndex((each) => !each.verdict || needs(each));
  if (open < 0) return finish("read");
  S.cur.at = open;
  work();
  bring();
  say([...said.values()][open].verdict ? "Mark the words that show it first." : "One more answer first: yes, no or unsure.");
}

function spoken({ verdict, form, spans }) {
  return { verdict, form: verdict === "present" ? form : null, spans: verdict === "absent" ? [] : spans };
}

function finish(outcome) {
  if (!ready()) return;
  const { task, said, note, since, spent } = S.cur, read = outcome === "read";
  if (task.right) return feedback(task, said, read);
  const kept = (of) => Object.fromEntries([...said].filter(([, each]) => read && of(each)).map(([slug, each]) => [slug, of(each)]));
  const verdicts = kept(spoken), blind = kept((each) => each.blind);
  for (const each of said.values()) each.blind = null; // sent once
  const seconds = Math.min(86399, Math.round((spent + performance.now() - since) / 100) / 10); // a tab left open for days
  const nonce = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16)).join("-");
  const sent = { task, said, note, body: { task: task.key, n: task.n, nonce, outcome, verdicts, blind, note, seconds } };
  task.n += 1;
  S.unsent.push(sent);
  S.past.push(sent);
  next();
  send();
}

function feedback({ right, why, turns }, said, read) { // on a practice task: nothing is sent
  S.practice.shift();
  S.cur = null;
  const traits = [...new Set([...Object.keys(right), ...said.keys()])];
  const lines = traits.map((slug) => {
    const ours = right[slug] ?? "absent", yours = said.get(slug)?.verdict ?? "absent";
    const alike = ours === yours ? "as we would" : `we would say ${ours}`;
    return el("p", {}, el("strong", {}, S.traits.get(slug).name), `: you said ${yours}, ${alike}.`);
  });
  const since = performance.now(), go = () => performance.now() - since > QUIET && next(); // a double press passes nothing by
  const on = button(S.practice.length ? "Next practice" : "On to your tasks", "Enter", go, { class: "first" });
  plain(read ? "What we would say" : "That is always fine", `“${turns[0].text}”`, read && lines, el("p", {}, why), on);
  on.focus();
}

function back() {
  const last = S.past.pop();
  if (!last) return;
  draw(last.task, last);
  say("Your last answer stands until you give another.");
}

// ---- keys

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || $("guidelines").open) return;
  if (event.target.closest("input, textarea, select, summary") || (event.key === "Enter" && event.target.closest("button"))) return;
  const cur = S.cur && !S.cur.cover ? S.cur : null;
  const slug = cur && [...cur.said.keys()][cur.at];
  const verdict = Object.keys(VERDICTS).find((name) => VERDICTS[name][1] === event.key);
  if (verdict && slug) answer(slug, verdict);
  else if (event.key === "Enter") done();
  else if (event.key === "s") finish("rather_not");
  else if (event.key === "z") back();
  else if (event.key === "g" && !$("guide").hidden) $("guidelines").showModal();
  else if (event.key === "a" && cur && !cur.task.rules) add();
  else if (event.key === "e" && slug && ["present", "unsure"].includes(cur.said.get(slug).verdict)) choose(slug);
  else if ("jk".includes(event.key) && slug) turn(Math.max(0, cur.at + (event.key === "j" ? 1 : -1)));
  else return;
  event.preventDefault();
});

$("done").addEventListener("click", done);
$("rather").addEventListener("click", () => finish("rather_not"));
$("back").addEventListener("click", back);
$("guide").addEventListener("click", () => $("guidelines").showModal());
$("guidelines").addEventListener("close", () => { if (S.cur) S.cur.since = performance.now(); });
addEventListener("beforeunload", (event) => { if (S.unsent.length) event.preventDefault(); });

function markdown(text, into) { // headings, lists, paragraphs, bold and code: what our guidelines have
  const inline = (line) => line.split(/(\*\*[^*]+\*\*|`[^`]+`)/).map((part) =>
    part.startsWith("**") ? el("strong", {}, part.slice(2, -2)) : part.startsWith("`") ? el("kbd", {}, part.slice(1, -1)) : part);
  let open = null;
  for (const block of text.replace(/\n {2,}/g, " ").split(/\n(?=\n|- |\d+\. |#)/).map((each) => each.trim().replace(/\n/g, " ")).filter(Boolean)) {
    const [, sign, rest] = block.match(/^(#+|-|\d+\.) (.*)$/) || [null, "", block];
    const tag = { "": "p", "-": "ul", "#": "h2" }[sign] || (sign.startsWith("#") ? "h3" : "ol");
    const item = tag === "ul" || tag === "ol";
    if (item && open?.localName !== tag) into.append(el(tag));
    open = item ? into.lastChild : null;
    (open || into).append(el(item ? "li" : tag, {}, inline(rest)));
  }
}

open();
