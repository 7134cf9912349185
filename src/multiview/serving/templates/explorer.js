// Asks the server, and says what answers. The key lies in this tab's session storage alone.

const KEY = "multiview-key";
const LOOK = 10000; // milliseconds between two looks at what answers
const $ = (id) => document.getElementById(id);

let answering = null; // what answers without a name: {index, champion}
let asking = null; // aborts the questions that are under way
let unlocking = null;
let troubled = false; // whether the problem shown is the last look's
let sides = []; // what is shown: {name, index, champion, hits}

async function call(path, body, signal) {
  const key = sessionStorage.getItem(KEY);
  const headers = { ...(key && { Authorization: `Bearer ${key}` }), ...(body && { "Content-Type": "application/json" }) };
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
  if (answer.status === 401) {
    if (sessionStorage.getItem(KEY) === key) await (unlocking ??= unlock().finally(() => { unlocking = null; }));
    return call(path, body, signal);
  }
  const content = await answer.text().then((text) => JSON.parse(text, exact)).catch(() => ({}));
  if (!answer.ok && !content.status) throw new Error(content.error?.message ?? `the server answered with status ${answer.status}`);
  return content;
}

// Keeps the digits of whole numbers that JavaScript would round, in browsers that tell them.
const exact = (_, value, written) => (written?.source && Number.isInteger(value) && !Number.isSafeInteger(value) ? JSON.rawJSON(written.source) : value);

function unlock() {
  sessionStorage.removeItem(KEY);
  const dialog = $("locked");
  $("key").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve, reject) => dialog.addEventListener("close", () => {
    const key = $("key").value.trim();
    $("key").value = "";
    if (!/^[\x21-\x7e]+$/.test(key)) return reject(new Error("this server asks for an API key; ask again to give one"));
    sessionStorage.setItem(KEY, key);
    resolve();
  }, { once: true }));
}

function tell(message) { $("message").textContent = message; }

function report(error) {
  if (error?.name === "AbortError") return;
  const offline = error instanceof TypeError;
  $("problem").textContent = error ? shown(offline ? "the server does not answer" : error.message) : "";
  $("problem").hidden = !error;
}

// What answers

const nameOf = ({ champion, index }) => (champion ? `Champion ${champion}` : `Index ${keyOf(index).slice(0, 8)}`);

function choiceOf({ name, roles, architecture, kind, passages, created }) {
  const [role] = roles;
  const about = [role ? role[0].toUpperCase() + role.slice(1) : name.slice(0, 8), architecture, kind, passages === null ? "" : counted(passages, "passage"), created.slice(0, 16).replace("T", " ")];
  return make("option", { value: name, title: name }, about.filter(Boolean).map(shown).join(" · "));
}

async function readChoices() {
  const found = await call("indexes");
  answering = { index: found.index, champion: found.champion };
  const about = [nameOf(found), found.architecture, found.ranking, counted(found.passages, "passage"), keyOf(found.index)];
  $("state").textContent = about.filter(Boolean).map(shown).join(" · ");
  $("k").max = found.most_passages;
  $("where").placeholder = shown(`${found.columns.at(-1)} is not null`);
  $("where").title = shown(`Columns: ${found.columns.join(", ")}`);
  $("index-0").placeholder = found.champion ? "Champion" : "The server's";
  $("indexes").replaceChildren(...found.indexes.map(choiceOf));
}

// Says so where another index answers than before; `from` is what is shown.
async function noteChange(now) {
  if (!answering || (now.index === answering.index && now.champion === answering.champion)) return;
  const before = nameOf(answering);
  answering = { index: now.index, champion: now.champion };
  const old = sides.find((side) => !side.name && (side.index !== now.index || side.champion !== now.champion));
  $("changed").querySelector("span").textContent = `${nameOf(now)} answers now, no longer ${before.toLowerCase()}.${old ? ` These answers are from ${nameOf(old).toLowerCase()}.` : ""}`;
  $("changed").querySelector("button").hidden = !old;
  $("changed").hidden = false;
  await readChoices();
}

async function look() {
  if (document.hidden || !answering) return;
  try {
    const state = await call("readyz");
    await noteChange(state);
    $("fresh").textContent = shown(state.notice || state.freshness);
    $("fresh").className = state.notice ? "problem" : "note";
    if (state.problem) throw new Error(state.problem);
    if (troubled) report(null);
    troubled = false;
  } catch (error) {
    troubled = true;
    report(error);
  }
}

// Asking

async function ask() {
  const question = $("question").value.trim();
  if (!question) return $("question").focus();
  asking?.abort();
  const { signal } = asking = new AbortController();
  const common = { questions: [question], k: Number($("k").value), explain: true, where: $("where").value.trim() || null };
  const [one, other] = [0, 1].map((side) => $(`index-${side}`).value.trim());
  const wanted = other ? [one, other] : [one];
  remember();
  report(null);
  troubled = false;
  tell("Searching …");
  $("answers").setAttribute("aria-busy", "true");
  try {
    const begun = performance.now();
    const found = await Promise.all(wanted.map((index) => call("search", { ...common, index: index || null }, signal)));
    if (signal.aborted) return;
    sides = found.map(({ index, champion, answers: [answer] }, number) => ({ name: wanted[number], where: common.where, index, champion, ...answer }));
    $("changed").hidden = true;
    show(performance.now() - begun);
    const plain = sides.find((side) => !side.name);
    if (!answering) await readChoices().catch(report);
    if (plain) await noteChange(plain);
  } catch (error) {
    if (!signal.aborted) { tell(""); report(error); }
  } finally {
    if (!signal.aborted) $("answers").setAttribute("aria-busy", "false");
  }
}

function show(milliseconds) {
  const [{ hits }, second] = sides;
  const number = counted(hits.length, "passage");
  tell(`${hits.length ? number : "No passage"} in ${Math.round(milliseconds)} ms${second ? `, ${difference(...sides)}` : ""}`);
  $("answers").className = second ? "two" : "";
  $("answers").replaceChildren(...sides.map((side, at) => sideOf(side, at, second && sides[1 - at].hits)));
}

function sideOf(side, at, others) {
  const option = [...$("indexes").options].find((each) => each.value === keyOf(side.index));
  const title = make("h2", { id: `side-${at}` }, side.champion ? nameOf(side) : shown(option?.textContent ?? nameOf(side)));
  const about = make("p", {}, make("code", {}, isolated(keyOf(side.index))), side.exact ? "" : " · approximate: better passages may be missing");
  return make("section", { className: "side", ariaLabel: title.textContent }, make("header", {}, title, about),
    make("ol", { className: "hits" }, ...side.hits.map((hit) => hitOf(hit, others))));
}

function difference(one, other) {
  const ids = new Set(other.hits.map((hit) => hit.id));
  const both = one.hits.filter((hit) => ids.has(hit.id)).length;
  const moved = one.hits.filter((hit) => other.hits.some((each) => each.id === hit.id && each.rank !== hit.rank)).length;
  const top = one.hits[0]?.id === other.hits[0]?.id ? "the same first" : "another first";
  const ranks = moved ? `${moved} of them at another rank` : "at the same ranks";
  return both ? `${both} on both sides, ${ranks}, ${top}` : "none on both sides";
}

// The address keeps what was asked: after #, which no server is sent.

const FIELDS = { q: "question", k: "k", where: "where", index0: "index-0", index1: "index-1" };

function remember() {
  const kept = new URLSearchParams(Object.entries(FIELDS).map(([name, id]) => [name, $(id).value.trim()]));
  for (const [name, value] of [...kept]) if (!value || (name === "k" && value === "10")) kept.delete(name);
  if (`#${kept}` !== location.hash) history.pushState(null, "", `#${kept}`);
}

function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const [name, id] of Object.entries(FIELDS)) $(id).value = kept.get(name) ?? (name === "k" ? "10" : "");
  if ($("question").value) ask();
}

$("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
$("changed").querySelector("button").addEventListener("click", ask);
for (const side of [0, 1]) $(`index-${side}`).addEventListener("change", () => sides.length && ask());
addEventListener("popstate", recall);
addEventListener("visibilitychange", look);
setInterval(look, LOOK);
readChoices().catch(report).then(() => { recall(); look(); });
