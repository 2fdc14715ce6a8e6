// Elements as data. Texts stay texts: nothing here makes markup of a string.

const SVG = "http://www.w3.org/2000/svg";
const HANDLERS = ["onclick", "onsubmit", "oninput", "onchange", "onkeydown"];

/** An HTML element: h("p", { class: "quiet" }, "text", child). */
export const h = (name, attributes, ...children) => build(document.createElement(name), attributes, children);

/** An SVG element. */
export const s = (name, attributes, ...children) => build(document.createElementNS(SVG, name), attributes, children);

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...flat(children));
  return node;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Let a node have these children, changing as little as possible: focus, selection and open parts stay. */
export function fill(parent, ...children) {
  const wanted = flat(children).map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
  const keys = new Set(wanted.map((node) => node.dataset?.key));
  const keyed = new Map();
  for (const child of [...parent.childNodes]) {
    const key = child.dataset?.key;
    if (key && keys.has(key)) keyed.set(key, child);
    else if (key) child.remove();
  }
  let place = parent.firstChild;
  for (const node of wanted) {
    const key = node.dataset?.key;
    const match = key ? keyed.get(key) : place && !place.dataset?.key ? place : null;
    if (match && alike(match, node)) {
      if (match !== place) put(parent, match, place);
      else place = place.nextSibling;
      keyed.delete(key);
      if (match !== node) morph(match, node);
    } else {
      parent.insertBefore(node, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function put(parent, node, place) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(node, place);
  focused?.focus({ preventScroll: true });
}

const alike = (old, node) => old.nodeType === node.nodeType && old.nodeName === node.nodeName;

function morph(old, node) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!node.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const name of HANDLERS) if (old[name] || node[name]) old[name] = node[name];
  fill(old, ...node.childNodes);
}
