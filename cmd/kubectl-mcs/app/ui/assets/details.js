// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Everything about one service.

import { age, element, replace, table, update } from "./dom.js";
import { symbols } from "./graph.js";

const rules = { Agreed: "all agree", Union: "union" };
const importStates = { Imported: "✓ imported", NotReady: "✗ not ready", NotImported: "✗ not imported", NotForThisCluster: "– not for this cluster", Unknown: "? unknown" };
const results = { OK: "✓", Warning: "!", Broken: "✗", NotChecked: "?", Deliberate: "–" };
const maxRecords = 50;
// Exports that are kept from this cluster on purpose: nothing is broken.
const deliberate = { NotForThisCluster: "The service is not for this cluster.", NotImportedFrom: "The namespace does not import the service on purpose." };

function rule(property) {
  if (rules[property.decision]) return rules[property.decision];
  return property.decision === "Founding" ? `founding export, ${property.cluster}` : `oldest export, ${property.cluster}`;
}

function port(one) {
  return `${one.name ? `${one.name}:` : ""}${one.port}/${one.protocol || "TCP"}`;
}

// audience says which other clusters an export is for.
function audience(one) {
  if (!one.exportedTo) return "all";
  return one.exportedTo.join(", ") || "no other cluster";
}

const section = (title, ...content) => [element("h3", null, title), ...content];

const conditionList = (conditions) => element("ul", { class: "conditions" }, (conditions ?? []).map((one) =>
  element("li", { "data-condition": one.type }, `${one.type} is ${one.status}: ${one.reason}${one.message ? `: ${one.message}` : ""}`)));

// renderDetails shows exports, conflicts, endpoints, importers and names. If one of them cannot be shown, the
// others are: what a member says must not hide the rest.
export function renderDetails(root, details, model) {
  const explained = details.explanation;
  const parts = [];
  const part = (title, content) => {
    try {
      parts.push(content());
    } catch (error) {
      parts.push(section(title, element("p", { class: "problem" }, `This cannot be shown: ${error.message}`)));
    }
  };
  if (!explained) {
    parts.push(details.exportsUnknown ? element("p", { class: "hint", id: "exports-unknown" }, "Exporters are unknown: exportedservices have not been read.")
      : withheld(details) ?? element("p", { class: "problem" }, "No cluster exports the service."));
  } else {
    part("Exporters, by precedence", () => exportsOf(details, explained));
    part("Conflicts", () => conflictsOf(explained));
    if (!details.endpointsUnknown) part("Ready/total endpoints", () => endpointsOf(explained));
  }
  part("Importers", () => importersOf(details, model));
  if (explained) {
    part("DNS names", () => namesOf(explained));
    part("Members that are not connected", () => disconnected(explained));
  }
  update(root, parts);
}

// withheld says that the service is not for the cluster of the first view, if that is why nothing is known of it.
function withheld(details) {
  const first = details.views?.[0];
  return first?.state === "NotForThisCluster" ? element("p", { class: "hint", id: "not-for-this-cluster" }, `Not for this cluster: ${first.reason}.`) : null;
}

function exportsOf(details, explained) {
  const rows = (explained.exports ?? []).map((one, i) => ({
    cells: [one.cluster, one.state ? `${symbols[one.state] ?? "?"} ${one.state}` : "unknown", `${age(one.since)} (${one.since})`, details.endpointsUnknown ? "unknown" : `${one.readyEndpoints}/${one.totalEndpoints}`,
      details.winner === one.cluster && i === 0 ? "wins" : "", (one.path ?? []).slice(1).join(", "), audience(one)],
  }));
  return section("Exporters, by precedence", table("exports", ["Cluster", "State", "Exported for", "Ready/total", "Precedence", "Via", "For"], rows),
    explained.importLimit ? element("p", { class: explained.importLimit.invalid ? "problem" : "hint", id: "import-limit" }, `${explained.importLimit.message}.`) : null,
    details.winner ? element("p", { id: "winner" }, element("strong", null, details.winner), ` wins conflicts: ${details.why}.`) : null);
}

function conflictsOf(explained) {
  const differing = (explained.properties ?? []).filter((one) => one.conflict || one.decision !== "Agreed");
  if (differing.length === 0) return section("Conflicts", element("p", { id: "no-conflicts" }, "None: all clusters export the same."));
  const clusters = (explained.exports ?? []).map((one) => one.cluster).slice(0, 8);
  return section("Conflicts",
    element("ul", { id: "conflicts" }, (explained.conflicts ?? []).map((one) => element("li", { "data-reason": one.reason }, element("strong", null, one.reason), `: ${one.message}`))),
    table("properties", ["Property", ...clusters, "Used", "Decided by"], differing.map((one) => ({
      class: one.conflict ? "conflict" : "", cells: [`${one.conflict ? "! " : ""}${one.name}`, ...clusters.map((cluster) => one.values?.[cluster] || "-"), one.used || "-", rule(one)],
    }))));
}

function endpointsOf(explained) {
  const rows = (explained.endpoints ?? []).map((one) => ({
    cells: [one.port ? port(one) : "-", `${one.ipFamily}${one.used ? "" : ", not used"}`, ...(one.clusters ?? []).slice(0, 8).map((count) => (count.served ? `${count.ready}/${count.total}` : "-"))],
  }));
  return section("Ready/total endpoints", table("endpoints", ["Port", "IP family", ...(explained.exports ?? []).slice(0, 8).map((one) => one.cluster)], rows));
}

function importersOf(details, model) {
  const rows = (details.views ?? []).map((view) => ({
    cells: [view.cluster || view.context, importStates[view.state] ?? "?", view.type, (view.ips ?? []).join(", "), view.exportsUnknown ? "unknown" : (view.clusters ?? []).join(", "), view.reason],
  }));
  const others = [...model.clusters.values()].filter((node) => !node.context).map((node) => node.name);
  return section("Importers", table("importers", ["Cluster", "Import", "Type", "IPs", "Knows exports of", "Reason"], rows),
    details.explanation?.noImport ? element("p", { class: "problem", id: "no-import" }, details.explanation.noImport) : null,
    others.length ? element("p", { class: "hint" }, `Imports of ${others.slice(0, 8).join(", ")}${others.length > 8 ? " and others" : ""} are not known: add their contexts with --contexts.`) : null,
    (details.views ?? []).map((view) => [
      view.activeTier ? element("p", { class: "tier" }, `Clients in ${view.cluster || view.context} use tier `, element("strong", null, view.activeTier), `: ${view.activeTierReason}.`) : null,
      view.conditions?.length ? [element("h4", null, `ServiceImport in ${view.cluster || view.context}`), conditionList(view.conditions)] : null,
      view.export ? [element("h4", null, `ServiceExport in ${view.cluster || view.context}`), conditionList(view.export.conditions)] : null,
    ]));
}

function namesOf(explained) {
  const all = explained.dns ?? [], shown = all.slice(0, maxRecords);
  return section("DNS names", table("names", ["Name", "Type", "Answers"], shown.map((one) => ({ cells: [one.name, one.type, (one.answers ?? []).join(", ") || "-"] }))),
    all.length > shown.length ? element("p", null, `… and ${all.length - shown.length} more`) : null);
}

function disconnected(explained) {
  if (!explained.disconnectedMembers?.length) return null;
  return section("Members that are not connected", element("ul", { id: "disconnected" }, explained.disconnectedMembers.map((one) =>
    element("li", null, `${symbols[one.state] ?? "?"} ${one.cluster} is ${one.state}: ${one.message}`))));
}

// wanted reports whether everything that keeps the service from this cluster is on purpose.
const wanted = (report) => (report.checks ?? []).every((check) => check.result !== "Broken" || check.consequenceOf || deliberate[check.reason]);

// verdictOf returns what the doctor found: its kind, and a sentence. Without a Pod, nobody knows whether a service
// responds.
export function verdictOf(report, probe) {
  const first = report.firstBroken;
  if (first && wanted(report)) return ["Deliberate", deliberate[first.reason]];
  if (first) return ["Broken", `First broken hop: ${first.hop} (context ${first.context})`];
  if (report.verdict !== "OK") return ["Unknown", "Nothing is known to be broken, but what decides could not be read."];
  if (report.responds) return ["OK", "Nothing is broken: the service responds."];
  if (report.service && !probe) return ["Unknown", "Nothing is broken as far as the clusters say. Whether the service responds is tried with a Pod."];
  return ["OK", "Nothing is broken."];
}

// renderDiagnosis shows what the doctor found, with a Pod or without.
export function renderDiagnosis(root, report, probe) {
  const first = report.firstBroken;
  const [kind, verdict] = verdictOf(report, probe);
  replace(root,
    element("p", { class: `verdict verdict-${kind}`, "data-hop": first?.hop, "data-verdict": report.verdict }, `${results[kind] ?? results.NotChecked} ${verdict}`),
    first ? [element("p", { class: kind === "Broken" ? "wrong" : "" }, message(first)), whatToDo(first), report.responds ? element("p", null, "The service responds nevertheless.") : null] : null,
    element("ol", { class: "path" }, (report.checks ?? []).map((check) => element("li", { class: `result-${check.consequenceOf ? "Consequence" : results[resultOf(check)] ? resultOf(check) : "NotChecked"}`, "data-hop": check.hop, "data-result": check.result },
      element("span", { class: "mark" }, check.consequenceOf ? "↳" : results[resultOf(check)] ?? "?"), element("span", { class: "hop" }, check.hop),
      element("span", { class: "message" }, message(check), check.consequenceOf ? ` (a consequence of ${check.consequenceOf})` : null,
        check.consequenceOf || same(check, first) ? null : whatToDo(check))))));
}

// resultOf returns the result of a check, or that it found something that somebody wants.
const resultOf = (check) => (deliberate[check.reason] ? "Deliberate" : check.result);

const same = (a, b) => b !== undefined && b !== null && a.hop === b.hop && a.message === b.message && a.cluster === b.cluster;

function message(check) {
  return `${check.cluster ? `${check.cluster}: ` : ""}${check.reason && !check.message.startsWith(check.reason) ? `${check.reason}: ` : ""}${check.message}`;
}

function whatToDo(check) {
  if (!check.remedy && !check.command && !check.documentation) return null;
  return element("div", { class: "remedy" }, check.remedy ? `→ ${check.remedy} ` : "→ ", check.command ? element("code", null, check.command) : null,
    check.documentation ? ` see ${check.documentation}` : null);
}
