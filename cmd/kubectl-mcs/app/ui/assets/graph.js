// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// The graph of clusters, and the table that says the same.

import { age, element, svg, update } from "./dom.js";

const width = 800, height = 400, radius = 26;

// states have a symbol and a kind of line besides a color.
export const symbols = { Local: "◆", Connected: "✓", Connecting: "…", Unavailable: "!", Stale: "!", Lost: "✗", Refused: "✗" };

const known = (state) => (symbols[state] ? state : "Unknown");

// layout returns the position of every cluster: around the one that is shown, or in a circle.
function layout(names, center) {
  const positions = new Map();
  const around = names.filter((name) => name !== center);
  if (center !== undefined) positions.set(center, { x: width / 2, y: height / 2 });
  around.forEach((name, i) => {
    const angle = (2 * Math.PI * i) / around.length - Math.PI / 2 + (around.length === 2 ? Math.PI / 2 : 0);
    positions.set(name, { x: width / 2 + Math.cos(angle) * (width / 2 - 120), y: height / 2 + Math.sin(angle) * (height / 2 - 62) });
  });
  return positions;
}

// nodesOf returns the clusters to draw: those that are known, and those that are watched.
export function nodesOf(model) {
  const nodes = new Map(model.clusters);
  for (const view of model.views.values()) {
    const name = view.node; // two contexts may be of one cluster
    if (!nodes.has(name)) {
      nodes.set(name, { name, context: view.context, exports: 0, endpoints: 0, links: [] });
    }
  }
  return new Map([...nodes].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function answerOf(model, node) {
  for (const view of model.views.values()) {
    if (view.context === node.context) {
      if (view.answer.failure) return "does not answer";
      if (view.answer.at) return `${view.answer.milliseconds} ms`;
    }
  }
  return "";
}

// seen is by the clock of the cluster that reads.
const seen = (link, model) => (link.lastSeen ? `seen ${age(link.lastSeen, model.views.get(link.context)?.answer.aheadSeconds)} ago` : "never seen");

// outdatedSince returns since when a view does not change any more although the cluster may, undefined if it does.
export function outdatedSince(view) {
  const since = (view?.unreadable ?? []).filter((one) => one.outdated).map((one) => one.since);
  if (view?.answer.failure) since.push(view.answer.at ?? "the beginning");
  return since.sort()[0];
}

// symbolOf returns the symbol of the state of a link, "?" if it may be another one by now.
const symbolOf = (link, model) => (outdatedSince(model.views.get(link.context)) ? "?" : symbols[link.state] ?? "?");

// renderGraph draws everything. roles are "exports" and "imports", by cluster, for the chosen service.
export function renderGraph(graph, model, roles) {
  const nodes = nodesOf(model);
  const views = [...model.views.values()];
  const center = views.length === 1 ? [...nodes.values()].find((node) => node.context === views[0].context)?.name : undefined;
  const positions = layout([...nodes.keys()], center);
  const edges = [], labels = [];
  for (const node of nodes.values()) {
    for (const link of node.links ?? []) {
      const from = positions.get(link.via ? link.via[0] : link.from) ?? positions.get(link.from), to = positions.get(node.name);
      if (!from || !to) continue;
      const both = nodes.get(link.from)?.links?.some((other) => other.from === node.name);
      edges.push(edge(from, to, both, link, node, outdatedSince(model.views.get(link.context))));
      label(from, to, both, link, node, model, nodes.size, labels);
    }
  }
  const circles = [...nodes.values()].map((node) => circle(node, positions.get(node.name), answerOf(model, node), roles.get(node.name)));
  update(graph, svg("g", { "data-key": "edges" }, edges), svg("g", { "data-key": "labels" }, labels), svg("g", { "data-key": "nodes" }, circles));
}

// followGraph calls a function with the name of a cluster that is chosen.
export function followGraph(graph, choose) {
  const chosen = (event) => event.target.closest("[data-cluster]")?.dataset.cluster;
  graph.addEventListener("click", (event) => {
    const name = chosen(event);
    if (name !== undefined) choose(name);
  });
  graph.addEventListener("keydown", (event) => {
    const name = chosen(event);
    if (name === undefined || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    choose(name);
  });
}

// bend returns the middle of a line, which is bent if there is one for the other direction.
function bend(from, to, both) {
  const dx = to.x - from.x, dy = to.y - from.y, length = Math.hypot(dx, dy) || 1, offset = both ? 26 : 0;
  return { x: (from.x + to.x) / 2 - (dy / length) * offset, y: (from.y + to.y) / 2 + (dx / length) * offset };
}

// keyOfLink identifies a link. Two contexts of one cluster have the same links.
const keyOfLink = (link, node) => `${link.context} ${link.from} ${node.name}`;

function edge(from, to, both, link, node, outdated) {
  const middle = bend(from, to, both);
  const control = { x: 2 * middle.x - (from.x + to.x) / 2, y: 2 * middle.y - (from.y + to.y) / 2 };
  return svg("path", { "data-key": keyOfLink(link, node), class: `edge state-${known(link.state)}${link.via ? " relayed" : ""}${outdated ? " outdated" : ""}`, d: `M${from.x} ${from.y} Q${control.x} ${control.y} ${to.x} ${to.y}` });
}

// label returns the text of a line. With many clusters, only what is wrong is written on lines; the
// table has the rest.
function label(from, to, both, link, node, model, count, labels) {
  if (count > 16 && link.state === "Connected") return;
  const middle = bend(from, to, both);
  labels.push(svg("text", { "data-key": `state ${keyOfLink(link, node)}`, class: `label state-${known(link.state)}`, x: middle.x, y: middle.y - 3, "text-anchor": "middle" },
    `${symbolOf(link, model)} ${link.state}${link.via ? ` via ${link.via.join(", ")}` : ""}`));
  labels.push(svg("text", { "data-key": `seen ${keyOfLink(link, node)}`, class: "label seen", x: middle.x, y: middle.y + 11, "text-anchor": "middle" }, seen(link, model)));
}

function circle(node, at, answer, role) {
  // When it was seen is in the table: a label that changes is read again.
  const text = `cluster ${node.name}: ${(node.links ?? []).map((link) => `${link.state} for ${link.from}`).join("; ") || "this cluster"}; ${node.exports} exports`;
  return svg("g", { class: `node${node.context ? " watched" : ""}${role ? ` ${role}` : ""}`, role: "button", tabindex: "0", "aria-label": text, "data-cluster": node.name, "data-key": node.name },
    svg("circle", { cx: at.x, cy: at.y, r: radius }),
    node.context ? svg("circle", { class: "ring", cx: at.x, cy: at.y, r: radius - 5 }) : null,
    svg("text", { class: "name", x: at.x, y: at.y + radius + 16, "text-anchor": "middle" }, node.name),
    svg("text", { class: "count", x: at.x, y: at.y + 5, "text-anchor": "middle" }, node.exports),
    svg("text", { class: "seen", x: at.x, y: at.y + radius + 30, "text-anchor": "middle" }, [role, answer && `answers in ${answer}`.replace("answers in does", "does")].filter(Boolean).join(" · ")));
}

// renderTable writes a row per cluster and view.
export function renderTable(body, model) {
  const rows = [];
  for (const node of nodesOf(model).values()) {
    const links = node.links?.length ? node.links : [null];
    links.forEach((link, i) => {
      const state = link ? link.state : node.context ? "Local" : "Unknown";
      const from = model.views.size > 1 && link ? ` for ${link.from}` : "";
      rows.push(element("tr", { "data-key": link ? keyOfLink(link, node) : node.name, "data-cluster": node.name, "data-state": state, class: `state-${known(state)}` },
        element("th", { scope: "row" }, i === 0 ? node.name : ""),
        element("td", { class: "state" }, `${link ? symbolOf(link, model) : symbols[state] ?? "?"} ${state}${from}`),
        element("td", null, link ? seen(link, model) : answerOf(model, node)),
        element("td", { class: "number" }, i === 0 ? node.exports : ""), element("td", { class: "number" }, i === 0 ? node.endpoints : ""),
        element("td", null, i === 0 ? node.version : ""),
        element("td", { class: "problems" }, (link?.problems ?? []).map((problem) => element("div", null, problem)))));
    });
  }
  update(body, rows);
}
