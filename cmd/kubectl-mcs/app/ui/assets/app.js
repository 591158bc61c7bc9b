// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// The page: what the server sends becomes the model, and what changed in it is rendered in the next frame.

import { age, clock, duration, element, replace, setText, tolerance, update, visible } from "./dom.js";
import { renderDetails, renderDiagnosis } from "./details.js";
import { followGraph, outdatedSince, renderGraph, renderTable } from "./graph.js";
import { List } from "./services.js";
import { controlled, follow, request, takeToken } from "./stream.js";

const refused = controlled();
const token = takeToken();
const model = { views: new Map(), clusters: new Map(), services: new Map() };
const maps = { view: "views", cluster: "clusters", service: "services" };
const byID = (id) => document.getElementById(id);
// chosen is the service of the details. While they are requested, its reading is true; it is outdated if they
// have to be requested again after that.
const newReading = () => ({ active: false, outdated: false, shown: "", ended: new AbortController() });
const chosen = { key: undefined, reading: newReading() };
const pause = 500; // between two requests for details, in milliseconds
const list = new List(byID("services"), model, open);

let staged = null; // everything so far, until the snapshot is complete
let state = "connecting", why = "";
const texts = { connecting: "Connecting", connected: "● Live", disconnected: "○ Disconnected, connecting again", paused: "○ Paused while the page is not visible", unauthorized: "✗ No access" };
let lastMessage = 0;
let changed = { view: new Set(), cluster: new Set(), service: new Set() };
let scheduled = false;

function receive(message) {
  lastMessage = Date.now();
  if (message.value?.now) clock.ahead = Date.parse(message.value.now) - lastMessage;
  if (message.kind === "hello") {
    staged = { views: new Map(), clusters: new Map(), services: new Map() };
  } else if (message.kind === "snapshot") {
    for (const [kind, name] of Object.entries(maps)) {
      for (const key of [...model[name].keys(), ...staged[name].keys()]) changed[kind].add(key);
      model[name].clear();
      for (const [key, value] of staged[name]) model[name].set(key, value);
    }
    staged = null;
    schedule();
  } else if (maps[message.kind]) {
    const entries = (staged ?? model)[maps[message.kind]];
    if (message.value === null) entries.delete(message.key);
    else entries.set(message.key, message.value);
    if (!staged) {
      changed[message.kind].add(message.key);
      schedule();
    }
  }
}

function schedule() {
  if (!scheduled) {
    scheduled = true;
    requestAnimationFrame(render);
  }
}

function render() {
  scheduled = false;
  const now = changed;
  changed = { view: new Set(), cluster: new Set(), service: new Set() };
  attempt(() => {
    if (now.service.size > 200) list.render();
    else if (now.service.size > 0) list.update(now.service);
  });
  attempt(() => { if (now.view.size > 0) renderViews(); });
  attempt(() => { if (now.view.size > 0 || now.cluster.size > 0) renderClusters(); });
  attempt(() => { if (chosen.key !== undefined && (now.service.has(chosen.key) || statesChanged())) refresh(); });
  document.body.dataset.rendered = String(Number(document.body.dataset.rendered ?? 0) + 1);
}

// attempt renders a part of the page. If it fails, the others are rendered nevertheless.
function attempt(part) {
  try {
    part();
  } catch (error) {
    reportError(error);
  }
}

// statesChanged reports whether the state of a member is another one than when it was last called. Members
// change every few seconds, because they were seen.
let states = "";
function statesChanged() {
  const before = states;
  states = JSON.stringify([...model.clusters.values()].map((node) => [node.name, (node.links ?? []).map((link) => [link.from, link.state])]).sort());
  return states !== before;
}

function renderClusters() {
  renderGraph(byID("graph"), model, roles());
  renderTable(document.querySelector("#cluster-table tbody"), model);
}

// roles are what clusters have to do with the chosen service.
function roles() {
  const service = model.services.get(chosen.key);
  const found = new Map();
  for (const one of service?.importers ?? []) if (one.state === "Imported") found.set(one.cluster, "imports");
  for (const one of service?.exporters ?? []) found.set(one.cluster, found.has(one.cluster) ? "exports and imports" : "exports");
  return found;
}

function renderViews() {
  const views = [...model.views.values()];
  const primary = views.find((view) => view.primary);
  const title = primary?.clusterSet ? `ClusterSet ${primary.clusterSet}` : "ClusterSet";
  setText(byID("title"), primary ? `${title}, as cluster ${primary.clusterID || "without ID"} sees it${primary.namespace ? `, namespace ${primary.namespace}` : ""}` : title);
  document.title = visible(title);
  const notices = [];
  if (Math.abs(clock.ahead) > tolerance * 1000) notices.push(difference("The clock of the browser", -clock.ahead / 1000));
  for (const view of views) {
    if (!view.synced) notices.push(element("p", { class: "loading" }, `Context ${view.context}: reading`));
    for (const one of view.unreadable ?? []) {
      notices.push(element("p", { class: "unreadable", "data-resource": one.resource, "data-context": view.context },
        element("strong", null, `Context ${view.context}: ${one.resource} cannot be read`), ` since ${one.since}: ${one.reason}`));
    }
    if (view.answer.failure && !view.unreadable?.length) notices.push(element("p", { class: "unreadable" }, `Context ${view.context}: ${view.answer.failure}`));
    if (Math.abs(view.answer.aheadSeconds) > tolerance) notices.push(difference(`Context ${view.context}: the clock of the cluster`, view.answer.aheadSeconds));
    if (primary && view.synced && view.clusterSet !== primary.clusterSet && !view.unreadable?.length) {
      notices.push(element("p", { class: "unreadable" }, `Context ${view.context} is in ClusterSet ${view.clusterSet || "(none)"}, another one than context ${primary.context}`));
    }
  }
  byID("notices").hidden = notices.length === 0;
  update(byID("notices"), notices);
  renderConnection();
  renderFreshness();
}

// difference says how a clock differs from that of the machine of kubectl mcs ui.
function difference(what, seconds) {
  return element("p", { class: "clock" }, `${what} is ${duration(Math.round(Math.abs(seconds)))} ${seconds > 0 ? "ahead of" : "behind"} that of kubectl mcs ui. Ages are corrected by it.`);
}

// renderConnection says whether everything that is shown follows the clusters. A connection to kubectl mcs ui does
// not suffice: it may not reach a cluster.
function renderConnection() {
  const views = [...model.views.values()];
  const outdated = views.filter(outdatedSince).map((view) => `context ${view.context} since ${outdatedSince(view)}`);
  let shown = state, text = texts[state];
  if (state === "connected" && outdated.length > 0) [shown, text] = ["outdated", `◐ Outdated: ${outdated.join(", ")}`];
  else if (state === "connected" && views.some((view) => view.unreadable?.length)) [shown, text] = ["outdated", "◐ Live, but incomplete: see what cannot be read"];
  byID("connection").dataset.state = shown;
  setText(byID("connection"), `${text}${why ? `: ${why}` : ""}`);
}

// renderFreshness says how old everything is that is shown.
function renderFreshness() {
  const events = [...model.views.values()].filter((view) => view.lastEvent).map((view) =>
    `${model.views.size > 1 ? `${view.context}: ` : ""}last change ${age(view.lastEvent)} ago`);
  const silent = state === "connected" || lastMessage === 0 ? [] : [`outdated for ${duration(Math.round((Date.now() - lastMessage) / 1000))}`];
  setText(byID("freshness"), [...silent, ...events].join(" · "));
}

function connection(next, reason) {
  state = next;
  why = reason;
  document.body.dataset.connection = next;
  renderConnection();
  renderFreshness();
}

function open(key) {
  const other = chosen.key !== key;
  chosen.key = key;
  byID("details").hidden = false;
  document.body.classList.add("detailed");
  if (other) {
    endReading();
    replace(byID("explanation"), key === "" ? [] : element("p", { class: "hint" }, "Reading"));
    replace(byID("diagnosis"));
    byID("details").dataset.revision = "";
  }
  setText(byID("details-title"), key === "" ? "ClusterSet" : `Service ${key}`);
  byID("details").dataset.key = key;
  byID("probe").hidden = byID("probe-help").hidden = key === "";
  byID("details-title").focus();
  renderClusters();
  refresh();
}

function close() {
  byID("details").hidden = true;
  document.body.classList.remove("detailed");
  chosen.key = undefined;
  endReading();
  list.chosen = undefined;
  list.mark();
  renderClusters();
  (list.rows.size > 0 ? byID("list") : byID("search")).focus(); // an empty list is not shown
}

const about = (key) => {
  const [namespace, service] = key.split("/");
  return { namespace, service };
};

// refresh reads the details again, once at a time: if answers take longer than changes, they are shown
// nevertheless.
async function refresh() {
  const reading = chosen.reading;
  reading.outdated = true;
  if (reading.active) return;
  reading.active = true;
  while (reading.outdated && chosen.key && !reading.ended.signal.aborted) {
    reading.outdated = false;
    await readDetails(reading, chosen.key, model.services.get(chosen.key)?.revision);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  reading.active = false;
}

// readDetails shows the details of a service, unless another one was chosen meanwhile, or they are the same.
async function readDetails(reading, key, revision) {
  try {
    const details = await request(token, `/api/service?${new URLSearchParams(about(key))}`, { signal: reading.ended.signal });
    const text = JSON.stringify([details, [...model.clusters.keys()]]);
    if (reading.ended.signal.aborted) return;
    if (text !== reading.shown) renderDetails(byID("explanation"), details, model);
    reading.shown = text;
    byID("details").dataset.revision = String(revision);
  } catch (error) {
    if (reading.ended.signal.aborted) return;
    reading.shown = "";
    replace(byID("explanation"), element("p", { class: "problem" }, error.message));
  }
}

// endReading ends requests for details that are not shown any more.
function endReading() {
  chosen.reading.ended.abort();
  chosen.reading = newReading();
}

const patience = 300; // for a diagnosis, in seconds
let diagnosing = false;

async function diagnose(probe) {
  if (diagnosing) return;
  diagnosing = true;
  const key = chosen.key;
  const buttons = [byID("diagnose"), byID("probe"), byID("check")];
  buttons.forEach((button) => button.setAttribute("aria-disabled", "true")); // disabled would lose the focus
  replace(byID("diagnosis"), element("p", { class: "hint" }, probe ? "Diagnosing, with a Pod: this may take a minute" : "Diagnosing"));
  try {
    const report = probe
      ? await request(token, "/api/doctor", { seconds: patience, method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(about(key)) })
      : await request(token, key === "" ? "/api/doctor" : `/api/doctor?${new URLSearchParams(about(key))}`, { seconds: patience });
    if (key === chosen.key) {
      renderDiagnosis(byID("diagnosis"), report, probe);
      byID("diagnosis").append(element("p", { class: "hint" }, `As of ${new Date().toLocaleTimeString()}`));
    }
  } catch (error) {
    if (key === chosen.key) replace(byID("diagnosis"), element("p", { class: "problem" }, `The diagnosis failed: ${error.message}`));
  } finally {
    diagnosing = false;
    buttons.forEach((button) => button.removeAttribute("aria-disabled"));
  }
}

// Names of clusters have no spaces; "context x" is a cluster whose name is unknown.
followGraph(byID("graph"), (name) => list.setSearch(name.includes(" ") ? "" : `cluster:${name}`));
byID("diagnose").addEventListener("click", () => diagnose(false));
byID("probe").addEventListener("click", () => diagnose(true));
byID("check").addEventListener("click", () => {
  if (diagnosing) return;
  list.chosen = undefined;
  list.mark();
  open("");
  diagnose(false);
});
byID("close").addEventListener("click", close);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "/" && event.target !== byID("search")) {
    event.preventDefault();
    byID("search").focus();
    byID("search").select();
  } else if (event.key === "Escape" && !byID("details").hidden) {
    close();
  }
});
setInterval(() => {
  renderFreshness();
  renderClusters();
}, 5000);
setInterval(renderFreshness, 1000);
if (refused) connection("unauthorized", refused);
else follow(token, receive, connection);
