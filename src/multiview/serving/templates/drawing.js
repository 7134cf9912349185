// Builds what is shown. Texts become text nodes: nothing that a corpus, a store or a user wrote is read as markup.

const BEFORE = 160, AFTER = 300; // code points around a snippet while a passage is folded

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value; else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

// Control characters as their pictures, which are as many code points.
const shown = (text) => String(text).replace(/[\x00-\x08\x0b-\x1f\x7f]/g,
  (one) => String.fromCharCode(one === "\x7f" ? 0x2421 : 0x2400 + one.charCodeAt(0)));
const isolated = (text) => make("bdi", {}, shown(text));
const figure = (score) => Number(score).toFixed(Math.abs(score) < 1 ? 5 : 3);
const counted = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
const keyOf = (address) => address.slice(address.lastIndexOf("/") + 1);

// A passage's text with its span marked; folded, only what is around the span. Spans are in code points.
function marked(text, span, whole) {
  const points = Array.from(shown(text));
  const [start, stop] = span ?? [0, 0];
  const from = whole || start <= BEFORE ? 0 : start - BEFORE;
  const to = whole || points.length <= stop + AFTER * 1.2 ? points.length : stop + AFTER;
  const part = (first, last) => points.slice(first, last).join("");
  const snippet = part(start, stop), trimmed = snippet.trimEnd();
  return [
    from ? "… " : "", part(from, start), span ? make("mark", {}, trimmed) : "", snippet.slice(trimmed.length), part(stop, to),
    to < points.length ? " …" : "",
  ];
}

function valueOf(value) {
  if (value === null) return make("span", { className: "note" }, "null");
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (!/^https?:\/\/\S+$/.test(text)) return shown(text);
  return make("a", { href: text, rel: "noreferrer noopener", target: "_blank" }, shown(text));
}

function unfolding(button, region, fill) {
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    region.hidden = !region.hidden;
    button.setAttribute("aria-expanded", String(!region.hidden));
    fill(!region.hidden);
  });
}

// Where a passage stands on the other side, if it stands elsewhere there.
function otherRank(hit, others) {
  if (!others) return null;
  const other = others.find((each) => each.id === hit.id);
  if (!other) return make("span", { className: "apart" }, "only on this side");
  return other.rank === hit.rank ? null : make("span", { className: "moved" }, `rank ${other.rank} on the other side`);
}

function hitOf(hit, others) {
  const text = make("p", { className: "text", dir: "auto" }, ...marked(hit.text, hit.span, false));
  const whole = make("div", { hidden: true });
  const open = make("button", { type: "button", className: "plain open" }, "Views and columns");
  const title = hit.span === null && hit.snippet ? make("mark", {}, isolated(hit.title)) : hit.title ? isolated(hit.title) : make("span", { className: "note" }, "no title");
  const apart = otherRank(hit, others);
  const item = make("li", { className: `hit ${apart?.className ?? ""}` },
    make("div", { className: "head" },
      make("span", { className: "rank" }, `${hit.rank}`), make("h3", { dir: "auto" }, title),
      make("span", { className: "score", title: `Score: ${hit.ranks ? "of the last ranking" : "the inner product of question and view"}` }, figure(hit.score))),
    make("div", { className: "body" }, text,
      make("div", { className: "about" }, make("code", {}, isolated(hit.id)),
        make("span", {}, hit.snippet === "" ? `view ${hit.view}, of no snippet` : `view ${hit.view}`), apart, open),
      whole));
  unfolding(open, whole, (opened) => {
    text.replaceChildren(...marked(hit.text, hit.span, opened));
    if (opened && !whole.childNodes.length) whole.append(...detailsOf(hit));
  });
  return item;
}

function detailsOf(hit) {
  const columns = Object.entries(hit.columns);
  const list = make("dl", {}, ...columns.flatMap(([name, value]) => [make("dt", { dir: "auto" }, isolated(name)), make("dd", { dir: "auto" }, valueOf(value))]));
  const ranks = Object.entries(hit.ranks ?? {}).flatMap(([name, found]) => [make("dt", {}, name), make("dd", {}, `rank ${found.rank}, score ${figure(found.score)}`)]);
  return [
    make("h4", {}, counted(hit.views.length, "view")), viewsOf(hit),
    ...(ranks.length ? [make("h4", {}, "Ranks"), make("dl", {}, ...ranks)] : []),
    ...(columns.length ? [make("h4", {}, "Columns"), list] : []),
  ];
}

const whatOf = (view) => (view.snippet === "" ? "no snippet" : view.snippet ?? `view ${view.view} of the whole passage`);

function viewsOf(hit) {
  const scores = hit.views.map((view) => view.score);
  const low = Math.min(0, ...scores), high = Math.max(...scores, low + 1e-9);
  const rows = hit.views.map((view) => {
    const bar = make("span", { className: "bar" });
    bar.style.width = `${100 * (view.score - low) / (high - low)}%`;
    const query = view.query ? make("div", { className: "note" }, "read with ", isolated(view.query)) : null;
    return make("tr", { className: view.view === hit.view ? "best" : "" },
      make("th", { scope: "row" }, `${view.view}`), make("td", { className: "scored" }, figure(view.view === hit.view && !hit.ranks ? hit.score : view.score), bar),
      make("td", { className: "start", dir: "auto" }, isolated(whatOf(view)), query));
  });
  const heads = [["View", ""], ["Score", ""], ["What it represents", "start"]];
  return make("div", { className: "scrolled" }, make("table", { className: "views" },
    make("thead", {}, make("tr", {}, ...heads.map(([name, className]) => make("th", { scope: "col", className }, name)))),
    make("tbody", {}, ...rows)));
}
