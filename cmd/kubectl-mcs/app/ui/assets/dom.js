// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Everything that clusters say is shown as text. Members are not trusted: their text becomes neither
// markup, nor an attribute with a meaning, nor control characters that reorder what is around it.

const svgNamespace = "http://www.w3.org/2000/svg";
const attributeNames = /^(class|id|role|tabindex|scope|type|hidden|title|d|x|y|cx|cy|r|width|height|points|text-anchor|aria-[a-z]+|data-[a-z]+)$/;

// visible returns text with everything that is not printable in the form \u202e.
export function visible(value) {
  return String(value ?? "").replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);
}

function create(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (!attributeNames.test(name)) {
      throw new Error(`attribute ${name} is not allowed`);
    }
    if (value !== undefined && value !== null && value !== false) {
      node.setAttribute(name, visible(value));
    }
  }
  append(node, children);
  return node;
}

// append appends elements, and everything else as text.
export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (typeof child === "object" && child !== null && !(child instanceof Node)) {
      throw new Error("only elements and text can be shown");
    }
    if (child !== undefined && child !== null && child !== false && child !== "") {
      node.append(child instanceof Node ? child : document.createTextNode(visible(child)));
    }
  }
}

export function element(name, attributes, ...children) {
  return create(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return create(document.createElementNS(svgNamespace, name), attributes, children);
}

// replace replaces all children.
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
}

// update makes the children of an element what they would be after replace, and changes only what differs:
// everything else keeps its focus, its selection, and what a screen reader has read. Children with
// data-key are the same if they have the same key.
export function update(node, ...children) {
  const wanted = document.createDocumentFragment();
  append(wanted, children);
  reconcile(node, wanted);
}

const keyOf = (node) => node.dataset?.key;

function reconcile(node, wanted) {
  const keys = new Set([...wanted.childNodes].map(keyOf));
  const known = new Map();
  for (const child of [...node.childNodes]) {
    const key = keyOf(child);
    if (key === undefined) continue;
    if (keys.has(key) && !known.has(key)) known.set(key, child);
    else child.remove();
  }
  let at = node.firstChild;
  for (const child of [...wanted.childNodes]) {
    const key = keyOf(child);
    const old = key !== undefined ? known.get(key) : at !== null && keyOf(at) === undefined ? at : undefined;
    known.delete(key);
    if (old?.nodeName !== child.nodeName) {
      node.insertBefore(child, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else node.insertBefore(old, at);
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== child.data) old.data = child.data;
      continue;
    }
    for (const { name } of [...old.attributes]) if (!child.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of child.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    reconcile(old, child);
  }
  while (at !== null) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// setText changes the text of an element only if it is another one: live regions are announced again
// otherwise.
export function setText(node, text) {
  const shown = visible(text);
  if (node.textContent !== shown) {
    node.textContent = shown;
  }
}

// table returns a table of rows of cells.
export function table(className, titles, rows) {
  return element("div", { class: "scroll" }, element("table", { class: className },
    element("thead", null, element("tr", null, titles.map((title) => element("th", { scope: "col" }, title)))),
    element("tbody", null, rows.map((row) => element("tr", { class: row.class }, row.cells.map((cell, i) =>
      i === 0 ? element("th", { scope: "row" }, cell) : element("td", null, cell)))))));
}

// clock is by how many milliseconds the clock of kubectl mcs ui is ahead of that of the browser.
export const clock = { ahead: 0 };

// tolerance is by how many seconds clocks may differ without being noticed: some have whole seconds.
export const tolerance = 5;

// age returns how long ago a time was by the clock of kubectl mcs ui, or by one that is some seconds ahead of it. It
// is negative for a time in the future.
export function age(time, ahead = 0) {
  const seconds = Math.round((Date.now() + clock.ahead - Date.parse(time)) / 1000 + ahead);
  return seconds < -tolerance ? `-${duration(-seconds)}` : duration(Math.max(0, seconds));
}

export function duration(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}
