// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// The list of services. Rows are changed one by one; at most limit of them exist.

import { element, replace, setText } from "./dom.js";

const limit = 200;
const marks = { OK: "✓", Warning: "!", Problem: "✗", Unknown: "?" };

// matches reports whether a service has all words of a search.
export function matches(service, words) {
  const name = `${service.namespace}/${service.name}`.toLowerCase();
  return words.every((word) => {
    const [, filter, value] = /^(cluster|is):(.*)$/.exec(word) ?? [];
    if (filter === "cluster") {
      return service.exporters.some((one) => one.cluster.toLowerCase() === value) ||
        service.importers.some((one) => !["NotImported", "NotForThisCluster"].includes(one.state) && one.cluster?.toLowerCase() === value);
    }
    if (filter === "is" && value === "conflict") return (service.conflicts ?? []).length > 0;
    if (filter === "is") return service.condition.toLowerCase() === value;
    return name.includes(word) || (service.ips ?? []).some((ip) => ip.includes(word));
  });
}

export class List {
  constructor(root, model, open) {
    this.root = root;
    this.list = root.querySelector("#list");
    this.search = root.querySelector("#search");
    this.count = root.querySelector("#count");
    this.more = root.querySelector("#more");
    this.model = model;
    this.open = open;
    this.rows = new Map(); // by key, in the order of the list
    this.found = new Set(); // all that match, also those without a row
    this.last = ""; // the key of the last row
    this.number = 0;
    this.active = undefined;
    this.search.addEventListener("input", () => this.render());
    this.search.addEventListener("keydown", (event) => this.searchKey(event));
    this.list.addEventListener("keydown", (event) => this.listKey(event));
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) this.choose(row.dataset.key);
    });
  }

  words() {
    return this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  }

  setSearch(text) {
    this.search.value = text;
    this.render();
  }

  // update changes the rows of services that changed. Only if other ones are to be shown now, all services
  // are looked at: not if they are beyond the last row.
  update(keys) {
    const words = this.words();
    for (const key of keys) {
      const service = this.model.services.get(key), match = service !== undefined && matches(service, words), shown = this.rows.has(key);
      if (shown !== match && (shown || this.rows.size < limit || key < this.last)) {
        this.render();
        return;
      }
      if (match) this.found.add(key);
      else this.found.delete(key);
    }
    for (const key of keys) {
      if (this.rows.has(key)) this.fill(this.rows.get(key), this.model.services.get(key));
    }
    this.countFound(words);
  }

  countFound(words) {
    const total = this.model.services.size, found = this.found.size;
    setText(this.count, words.length ? `${found} of ${total} services` : `${total} services`);
    this.more.hidden = found <= limit;
    setText(this.more, found > limit ? `… and ${found - limit} more: search to find them` : "");
  }

  // render decides which services are shown, and keeps the rows of those that were.
  render() {
    const words = this.words();
    const found = [...this.model.services].filter(([, service]) => matches(service, words)).map(([key]) => key).sort();
    const rows = new Map();
    this.found = new Set(found);
    this.last = found[limit - 1] ?? "";
    for (const key of found.slice(0, limit)) {
      const row = this.rows.get(key) ?? element("li", { role: "option", id: `service-${this.number++}`, "data-key": key });
      this.fill(row, this.model.services.get(key));
      rows.set(key, row);
    }
    this.rows = rows;
    let at = this.list.firstElementChild;
    for (const row of rows.values()) {
      if (row === at) {
        at = at.nextElementSibling;
      } else {
        this.list.insertBefore(row, at);
      }
    }
    while (at) {
      const next = at.nextElementSibling;
      at.remove();
      at = next;
    }
    this.countFound(words);
    if (!rows.has(this.active)) this.active = undefined;
    this.mark();
  }

  fill(row, service) {
    const state = JSON.stringify(service);
    if (row.filled === state) return;
    row.filled = state;
    row.setAttribute("data-condition", service.condition);
    row.className = `condition-${marks[service.condition] ? service.condition : "Unknown"}`;
    const clusters = service.exporters.map((one) => one.cluster);
    replace(row,
      element("span", { class: "mark", "aria-hidden": "true" }, marks[service.condition] ?? "?"),
      element("span", { class: "name" }, `${service.namespace}/${service.name}`),
      element("span", { class: "summary" }, `${service.condition === "OK" ? "" : `${service.condition}: `}${service.summary}`),
      element("span", { class: "exporters" }, clusters.length ? `exported by ${clusters.slice(0, 4).join(", ")}${clusters.length > 4 ? ` and ${clusters.length - 4 + (service.omitted ?? 0)} more` : ""}` : ""));
  }

  mark() {
    for (const [key, row] of this.rows) {
      row.classList.toggle("active", key === this.active);
      row.setAttribute("aria-selected", String(key === this.chosen));
    }
    if (this.active) {
      this.list.setAttribute("aria-activedescendant", this.rows.get(this.active).id);
    } else {
      this.list.removeAttribute("aria-activedescendant");
    }
  }

  move(step) {
    const keys = [...this.rows.keys()];
    if (keys.length === 0) return;
    const at = keys.indexOf(this.active);
    const to = at < 0 ? (step < 0 ? keys.length - 1 : 0) : Math.min(keys.length - 1, Math.max(0, at + step));
    this.active = keys[to];
    this.mark();
    this.rows.get(this.active).scrollIntoView({ block: "nearest" });
  }

  choose(key) {
    this.active = this.chosen = key;
    this.mark();
    this.open(key);
  }

  searchKey(event) {
    if (event.key === "ArrowDown") {
      event.preventDefault();
      this.list.focus();
      this.move(1);
    } else if (event.key === "Enter" && this.rows.size > 0) {
      this.choose(this.rows.has(this.active) ? this.active : this.rows.keys().next().value);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      this.setSearch("");
      this.list.focus();
    }
  }

  listKey(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      event.preventDefault();
      if (event.key === "Home" || event.key === "End") this.active = this.active ?? this.rows.keys().next().value;
      this.move(steps[event.key]);
    } else if (event.key === "Enter" && this.active) {
      this.choose(this.active);
    }
  }
}
