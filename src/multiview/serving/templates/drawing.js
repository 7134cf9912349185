// Builds what is shown. Texts become text nodes: nothing that a corpus, a store or a user wrote is read as markup.

const SVG = "http://www.w3.org/2000/svg";
const BEFORE = 160, AFTER = 300; // code points around a snippet while a passage is folded
const TOP = 10; // ranks that are drawn

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value; else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Control characters as their pictures, which are as many code points.
const shown = (text) => String(text).replace(/[\x00-\x08\x0b-\x1f\x7f]/g,
  (one) => String.fromCharCode(one === "\x7f" ? 0x2421 : 0x2400 + one.charCodeAt(0)));
const isolated = (text) => make("bdi", {}, shown(text));
const figure = (score) => Number(score).toFixed(3);
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

function hitOf(hit, number, others, mapOf) {
  const text = make("p", { className: "text", dir: "auto" }, ...marked(hit.text, hit.span, false));
  const whole = make("div", { hidden: true });
  const open = make("button", { type: "button", className: "plain open" }, "Views and columns");
  const title = hit.span === null && hit.snippet ? make("mark", {}, isolated(hit.title)) : hit.title ? isolated(hit.title) : make("span", { className: "note" }, "no title");
  const apart = otherRank(hit, others);
  const item = make("li", { className: `hit ${apart?.className ?? ""}`, tabIndex: number ? -1 : 0 },
    make("div", { className: "head" },
      make("span", { className: "rank" }, `${hit.rank}`), make("h3", { dir: "auto" }, title),
      make("span", { className: "score", title: "Score: the inner product of question and view" }, figure(hit.score))),
    make("div", { className: "body" }, text,
      make("div", { className: "about" }, make("code", {}, isolated(hit.id)),
        make("span", {}, hit.snippet === "" ? `view ${hit.view}, of no snippet` : `view ${hit.view}`), apart, open),
      whole));
  unfolding(open, whole, (opened) => {
    text.replaceChildren(...marked(hit.text, hit.span, opened));
    if (opened && !whole.childNodes.length) whole.append(...detailsOf(hit, mapOf));
  });
  return item;
}

function detailsOf(hit, mapOf) {
  const columns = Object.entries(hit.columns);
  const list = make("dl", {}, ...columns.flatMap(([name, value]) => [make("dt", { dir: "auto" }, isolated(name)), make("dd", { dir: "auto" }, valueOf(value))]));
  const button = make("button", { type: "button", className: "plain" }, "How alike are these views?");
  const map = make("div", { hidden: true, role: "region", ariaLabel: "Cosines between the views" });
  unfolding(button, map, async (opened) => {
    if (!opened || map.childNodes.length) return;
    map.append("…");
    map.replaceChildren(...await mapOf(hit.id));
  });
  return [
    make("h4", {}, counted(hit.views.length, "view")), viewsOf(hit), button, map,
    ...(columns.length ? [make("h4", {}, "Columns"), list] : []),
  ];
}

const whatOf = (view, hit) =>
  view.snippet === "" ? "no snippet" : view.snippet ?? (hit ? `view ${view.view} of the whole passage` : "the whole passage");

function viewsOf(hit) {
  const scores = hit.views.map((view) => view.score);
  const low = Math.min(0, ...scores), high = Math.max(...scores, low + 1e-9);
  const rows = hit.views.map((view) => {
    const bar = make("span", { className: "bar" });
    bar.style.width = `${100 * (view.score - low) / (high - low)}%`;
    const query = view.query ? make("div", { className: "note" }, "read with ", isolated(view.query)) : null;
    return make("tr", { className: view.view === hit.view ? "best" : "" },
      make("th", { scope: "row" }, `${view.view}`), make("td", { className: "scored" }, figure(view.view === hit.view ? hit.score : view.score), bar),
      make("td", { className: "start", dir: "auto" }, isolated(whatOf(view, hit)), query));
  });
  const heads = [["View", ""], ["Score", ""], ["What it represents", "start"]];
  return make("div", { className: "scrolled" }, make("table", { className: "views" },
    make("thead", {}, make("tr", {}, ...heads.map(([name, className]) => make("th", { scope: "col", className }, name)))),
    make("tbody", {}, ...rows)));
}

// The map of a passage's views: the cosine of every two, the higher the darker.
function cosinesOf({ views, cosines }) {
  const apart = cosines.flatMap((row, one) => row.filter((_, other) => other !== one));
  const low = Math.min(...apart, 0.999);
  const shade = (cosine) => `color-mix(in srgb, var(--bar) ${Math.round(100 * Math.max(0, (cosine - low) / (1 - low)))}%, var(--paper))`;
  const name = (view) => make("th", { scope: "col", title: shown(whatOf(view)) }, `${view.view}`);
  const rows = cosines.map((row, number) => make("tr", {},
    make("th", { scope: "row", title: shown(whatOf(views[number])) }, `${views[number].view}`),
    ...row.map((cosine) => {
      const cell = make("td", {}, cosine.toFixed(2));
      cell.style.backgroundColor = shade(cosine);
      return cell;
    })));
  const spread = apart.length ? `Cosines between two different views: ${Math.min(...apart).toFixed(2)} to ${Math.max(...apart).toFixed(2)}. At 1 two views are the same.` : "There is only one view.";
  return [make("p", { className: "note" }, spread), make("div", { className: "scrolled", tabIndex: 0 },
    make("table", { className: "map" }, make("thead", {}, make("tr", {}, make("td"), ...views.map(name))), make("tbody", {}, ...rows)))];
}

const METHODS = [["bm25", "BM25"], ["fused", "Fused"], ["dense", "Dense"]];

// A question's way: the passages of the first ranks by BM25, by views, and fused from both.
function ranksOf({ passages, depth }) {
  const first = passages.filter((each) => METHODS.some(([method]) => each[method]?.rank <= TOP));
  const rows = new Map(), ways = new Map();
  const light = (id) => {
    for (const marks of [rows, ways]) for (const [each, mark] of marks) mark.classList.toggle("lit", each === id);
  };
  const lit = (mark, id) => {
    mark.addEventListener("mouseenter", () => light(id));
    mark.addEventListener("mouseleave", () => light(null));
    return mark;
  };
  for (const each of first) {
    rows.set(each.id, lit(make("tr", {},
      ...METHODS.map(([method]) => make("td", {}, each[method] ? `${each[method].rank}` : "–")),
      make("td", { className: "start", dir: "auto" }, isolated(each.title || each.id))), each.id));
    ways.set(each.id, lit(wayOf(each), each.id));
  }
  const table = make("table", {},
    make("thead", {}, make("tr", {}, ...METHODS.map(([, name]) => make("th", { scope: "col" }, name)), make("th", { scope: "col", className: "start" }, "Passage"))),
    make("tbody", {}, ...rows.values()));
  const heads = METHODS.map(([, name], column) => draw("text", { x: 60 + 150 * column, y: 14, "text-anchor": "middle" }, name));
  const below = draw("text", { x: 0, y: 48 + 26 * TOP + 34 }, `below rank ${TOP}`);
  const chart = draw("svg", { viewBox: `0 0 420 ${48 + 26 * TOP + 44}`, "aria-hidden": "true" }, ...heads, ...ways.values(), below);
  const note = `The first ${TOP} of each, of ${depth} ranks; – is a passage below them. Fused: the sum of 1 / (60 + rank).`;
  return [make("p", { className: "note" }, note), make("div", { className: "layout" }, make("div", { className: "scrolled", tabIndex: 0 }, table), chart)];
}

function wayOf(passage) {
  const points = METHODS.map(([method], column) => {
    const rank = passage[method]?.rank <= TOP ? passage[method].rank : null;
    return { x: 60 + 150 * column, y: 14 + 26 * (rank ?? TOP + 1.6), rank };
  });
  const steps = points.slice(1).map((to, at) => [points[at], to]).filter(([from, to]) => from.rank || to.rank);
  const line = draw("path", { d: steps.map(([from, to]) => `M${from.x} ${from.y}L${to.x} ${to.y}`).join("") });
  const marks = points.filter(({ rank }) => rank).flatMap(({ x, y, rank }) => [
    draw("circle", { cx: x, cy: y, r: 9 }),
    draw("text", { x, y: y + 4, "text-anchor": "middle", class: "in" }, `${rank}`),
  ]);
  return draw("g", {}, line, ...marks);
}
