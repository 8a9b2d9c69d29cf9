/* Copyright (c) 2026 Knaster contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 * SPDX-FileCopyrightText: 2026 Knaster contributors */
(() => {
"use strict";
/* Text from data goes into the page as text nodes and attributes only; nothing here makes HTML of a string. */

const DATA = JSON.parse(document.getElementById("data").textContent);
/* The places of values in the rows of the data, as _data.py writes them. */
const NODE = { name: 0, state: 1, fabrics: 2, labels: 3, cards: 4, cpuWork: 5, live: 6, cpu: 7, ram: 8, left: 9, disks: 10, weights: 11, storage: 12, notes: 13, host: 14 };
const CARD = { index: 0, state: 1, kind: 2, by: 3, uuid: 4, pci: 5, live: 6, holder: 7, health: 8, fits: 9 };
const KIND = { cls: 0, name: 1, gb: 2, mib: 3, cap: 4, driver: 5 };
const WORK = { name: 0, base: 1, kind: 2, engine: 3, why: 4, fits: 5, weights: 6, mib: 7, vm: 8, risk: 9 };
const LIVE = { id: 0, role: 1, model: 2, state: 3, reason: 4, running: 5, waiting: 6, idle: 7, drift: 8, simulated: 9 };
const STATE_TEXT = { used: "in use", free: "free", external: "external", unhealthy: "broken", unknown: "not known", broken: "broken, in use" };
const BAR = ["used", "broken", "free", "external", "unhealthy", "unknown"];
const HATCHED = new Set(["external", "unhealthy", "unknown", "broken"]);
const SIGNS = { failed: "!", starting: "\u2026", draining: "\u2193" };
const CHUNK = 48;
/* Up to so many nodes are drawn without being asked for. */
const OPEN = 120;
const IDLE_SECONDS = 600;
/* From the page itself, which names no address. */
const SVG = document.querySelector("svg").namespaceURI;
const nodes = DATA.nodes;
/* Some of them are fields; the others have no value, and none is asked of them. */
const byId = (id) => /** @type {HTMLInputElement} */ (document.getElementById(id));
/** @type {(selector: string) => NodeListOf<HTMLDetailsElement>} */
const findAll = (selector) => document.querySelectorAll(selector);
const stateOf = (card) => DATA.states[card[CARD.state]];
const kindOf = (card) => DATA.kinds[card[CARD.kind]];
const workOf = (card) => (card[CARD.by] || []).map((number) => DATA.placed[number]);
const cardsOf = (node) => node[NODE.cards] || [];
const known = (value) => value !== null && value !== undefined;
const number = (value) => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
const natural = new Intl.Collator("en", { numeric: true }).compare;
const order = (left, right) => natural(left, right) || (left < right ? -1 : left > right ? 1 : 0);

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
/* A name from data, apart from the direction of the text around it. */
const bdi = (text) => el("bdi", null, String(text));

/* ---- what a search looks at ---- */
let index = null;
function makeIndex() {
  const low = (value) => (known(value) && value !== 0 ? String(value).toLowerCase() : "");
  return nodes.map((node) => {
    const labels = Object.entries(node[NODE.labels]).map(([key, value]) => `${key}=${value}`.toLowerCase());
    const fields = { node: [low(node[NODE.name]), low(node[NODE.host])], nodeState: low(node[NODE.state]), fabric: node[NODE.fabrics].map(low), label: labels };
    const units = cardsOf(node).map((card) => unit(low, workOf(card), (card[CARD.live] || []).map((at) => DATA.live[at]), card));
    for (const at of node[NODE.cpuWork] || []) units.push(unit(low, [DATA.placed[at]], [], null));
    const live = (node[NODE.live] || []).map((at) => DATA.live[at]).filter((one) => cardsOf(node).every((card) => !(card[CARD.live] || []).some((at) => DATA.live[at] === one)));
    for (const one of live) units.push(unit(low, [], [one], null));
    if (!units.length) units.push(unit(low, [], [], null));
    fields.text = [...fields.node, fields.nodeState, ...fields.fabric, ...labels].join("\n");
    return { fields, units };
  });
}
function unit(low, work, live, card) {
  const kind = card ? kindOf(card) : [];
  const found = {
    cls: low(kind[KIND.cls]),
    role: [], model: [],
    state: card ? [stateOf(card)] : [],
    card: Boolean(card),
  };
  if (found.state[0] === "broken") found.state.push("used", "unhealthy");
  const words = [kind[KIND.cls], kind[KIND.name], card && card[CARD.uuid], card && card[CARD.pci], card && card[CARD.holder], card && STATE_TEXT[stateOf(card)]];
  for (const one of work) {
    found[one[WORK.kind] ? "model" : "role"].push(low(one[WORK.base]));
    words.push(one[WORK.name], one[WORK.engine], one[WORK.vm]);
    if (one[WORK.risk]) found.state.push("at risk");
  }
  for (const one of live) {
    found.state.push(low(one[LIVE.state]));
    if (one[LIVE.drift] === "stale") found.state.push("stale");
    if (one[LIVE.simulated]) found.state.push("simulated");
    if (known(one[LIVE.idle]) && one[LIVE.idle] >= IDLE_SECONDS && one[LIVE.state] === "ready") found.state.push("idle");
    if (one[LIVE.model]) found.model.push(low(one[LIVE.model]));
    words.push(one[LIVE.id], one[LIVE.model]);
  }
  found.text = [...words.map(low), ...found.state].join("\n");
  return found;
}
const FIELDS = {
  node: (node) => node.node,
  fabric: (node) => node.fabric,
  label: (node) => node.label,
  class: (_node, one) => [one.cls],
  role: (_node, one) => one.role,
  model: (_node, one) => one.model,
  state: (node, one) => [node.nodeState, ...one.state],
};
function parse(text) {
  const terms = [];
  for (const [, key, quoted, plain] of text.toLowerCase().matchAll(/(?:(node|fabric|label|class|role|model|state):)?(?:"([^"]*)"?|(\S+))/g)) {
    const value = quoted === undefined ? plain : quoted;
    if (value) terms.push({ key: key || null, value, exact: false });
  }
  return terms;
}
function fits(term, fields, one) {
  if (!term.key) return fields.text.includes(term.value) || one.text.includes(term.value);
  return FIELDS[term.key](fields, one).some((value) => (term.exact ? value === term.value : value.includes(term.value)));
}

/* ---- what is asked for; the address keeps it ---- */
const asked = { q: "", state: "", class: "", what: "", by: "", size: "", node: "" };
const defaults = { by: "", size: nodes.length > OPEN ? "small" : "large" };
let forced = new Map();
function readHash() {
  const hash = location.hash.slice(1);
  if (hash && !hash.includes("=")) return false;
  const values = new URLSearchParams(hash);
  for (const key of Object.keys(asked)) asked[key] = values.get(key) || defaults[key] || "";
  if (!groupings.has(asked.by)) asked.by = defaults.by;
  if (asked.size !== "small" && asked.size !== "large") asked.size = defaults.size;
  return true;
}
/* A little later: browsers slow down a page that changes its address with every key. */
let writing = 0;
function writeHash() {
  clearTimeout(writing);
  writing = setTimeout(writeHashNow, 150);
}
function writeHashNow() {
  const values = new URLSearchParams();
  for (const [key, value] of Object.entries(asked)) if (value && value !== defaults[key]) values.set(key, value);
  const hash = values.toString();
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

/* ---- groups ---- */
const groupings = new Map();
function findGroupings() {
  const labels = new Set();
  let fabrics = 0;
  const classes = new Set();
  for (const node of nodes) {
    for (const key of Object.keys(node[NODE.labels])) labels.add(key);
    if (node[NODE.fabrics].length) fabrics += 1;
    classes.add(classesOf(node));
  }
  groupings.set("none", { text: "nothing", of: () => (results ? "Matching" : "All") });
  for (const key of [...labels].sort(order)) {
    groupings.set(`label:${key}`, { text: `label ${key}`, of: (node) => (Object.hasOwn(node[NODE.labels], key) ? node[NODE.labels][key] : `no label ${key}`) });
  }
  if (fabrics) groupings.set("fabric", { text: "fabric", of: (node) => node[NODE.fabrics].join(", ") || "no fabric" });
  groupings.set("class", { text: "class of GPUs", of: classesOf });
  groupings.set("state", { text: "state of the node", of: (node) => node[NODE.state] });
  const first = ["label:rack", "label:row", "label:room", "label:zone"].find((key) => groupings.has(key));
  if (nodes.length < 9) defaults.by = "none";
  else if (first === "label:rack" || (first && !fabrics)) defaults.by = first;
  else if (fabrics) defaults.by = "fabric";
  else defaults.by = classes.size > 1 ? "class" : "none";
}
function classesOf(node) {
  if (!node[NODE.cards]) return "GPUs not known";
  return [...new Set(cardsOf(node).map((card) => kindOf(card)[KIND.cls] || "unknown class"))].join(", ") || "no GPUs";
}

/* ---- drawing ---- */
const unitOf = (card) => Math.sqrt(kindOf(card)[KIND.gb] || 12);
const widest = Math.max(12, ...nodes.map((node) => cardsOf(node).reduce((sum, card) => sum + unitOf(card), 0)));
function cardText(card) {
  const kind = kindOf(card);
  const parts = [`GPU ${card[CARD.index]}: ${kind[KIND.cls] || "unknown class"}${known(kind[KIND.gb]) ? ` ${kind[KIND.gb]} GB` : ""}, ${STATE_TEXT[stateOf(card)]}`];
  const by = workOf(card).map((one) => one[WORK.name]).join(", ") || card[CARD.holder];
  if (by) parts.push(by);
  for (const at of card[CARD.live] || []) parts.push(`${DATA.live[at][LIVE.id]} ${DATA.live[at][LIVE.state]}`);
  return parts.join(", ");
}
/* Pixels of a percent of a tile, as page.css lays them out: what tells whether a text has room. */
let perCent = 2.5;
function measure() {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const room = byId("groups").clientWidth;
  const gap = 0.55 * rem;
  const columns = Math.max(1, Math.floor((room + gap) / (17.5 * rem + gap)));
  perCent = ((room + gap) / columns - gap - 1.3 * rem - 4) / 100;
}
/* Cards of one replica side by side are one block: what belongs together looks so. */
function blocksOf(node, matched) {
  const blocks = [];
  cardsOf(node).forEach((card, at) => {
    const own = (card[CARD.by] || []).join(" ");
    const dim = Boolean(matched && !matched[at]);
    const last = blocks[blocks.length - 1];
    if (own && last && last.own === own && last.state === stateOf(card) && last.dim === dim) last.cards.push(card);
    else blocks.push({ own, state: stateOf(card), dim, cards: [card] });
  });
  return blocks;
}
function strip(node, small, matched) {
  const height = small ? 12 : 24;
  const made = svg("svg", { class: "strip", role: "img", width: "100%", height, "aria-label": `${plural(cardsOf(node).length, "GPU")}: ${caption(node, true)}` });
  const gap = small ? 0.9 : 0.7;
  const percent = (value) => `${value.toFixed(2)}%`;
  const scale = 100 / widest;
  const text = caption(node, false);
  const whole = cardsOf(node).reduce((sum, card) => sum + unitOf(card), 0) * scale;
  const fitsBeside = text.length * 6.2 + 14 <= (100 - whole) * perCent;
  let x = 0;
  let told = true;
  for (const { state, dim, cards } of blocksOf(node, matched)) {
    const widths = cards.map((card) => unitOf(card) * scale);
    const width = widths.reduce((sum, each) => sum + each, 0) - gap;
    const shape = { x: percent(x), y: 1, width: percent(width), height: height - 2, rx: small ? 1.5 : 3 };
    const group = svg("g", dim ? { class: "dim" } : {});
    group.append(svg("title", {}, cards.map(cardText).join("\n")), svg("rect", { ...shape, class: `fill ${state === "broken" ? "used" : state}` }));
    if (HATCHED.has(state)) group.append(svg("rect", { ...shape, class: `over ${state}` }));
    let edge = x;
    cards.forEach((card, at) => {
      edge += widths[at];
      if (at < cards.length - 1) {
        const notch = { class: "notch", x1: percent(edge - gap / 2), x2: percent(edge - gap / 2) };
        group.append(svg("line", { ...notch, y1: 1, y2: small ? 4 : 6 }), svg("line", { ...notch, y1: height - (small ? 4 : 6), y2: height - 1 }));
      }
      const sign = (card[CARD.live] || []).map((one) => SIGNS[DATA.live[one][LIVE.state]]).find(Boolean);
      if (sign && !small) group.append(svg("text", { class: "sign", x: percent(edge - gap - 0.8), y: 11, "text-anchor": "end" }, sign));
    });
    const name = workOf(cards[0]).map((one) => one[WORK.name]).join(" + ");
    const room = Math.floor((width * perCent - 6) / 7);
    if (!small && name && (name.length <= room || (room >= 10 && !fitsBeside))) {
      const shown = name.length <= room ? name : `${name.slice(0, room - 1)}\u2026`;
      /* In a frame of its own, so that what has no room after all is cut off. */
      const frame = svg("svg", { x: percent(x), width: percent(width), height });
      frame.append(svg("text", { class: `label ${state}`, x: "50%", y: 16, "text-anchor": "middle", "aria-hidden": "true" }, shown));
      group.append(frame);
    }
    told = told && (state === "free" || (name && name.length <= room));
    made.append(group);
    x += width + gap;
  }
  if (text && fitsBeside && !told && !small) made.append(svg("text", { class: "beside", x: percent(x + 1.5), y: 16, "aria-hidden": "true" }, text));
  const beside = told || fitsBeside;
  return { made, beside };
}
/* Who has the cards of a node; free ones are counted at its name. */
function caption(node, free) {
  const parts = [];
  const owners = new Map();
  const alike = new Map();
  const others = new Map();
  for (const card of cardsOf(node)) {
    const work = workOf(card);
    if (work.length) {
      const name = work.map((one) => one[WORK.name]).join(" + ");
      owners.set(name, { work, count: (owners.get(name) || { count: 0 }).count + 1 });
    } else if (free || stateOf(card) !== "free") {
      const text = stateOf(card) === "external" && card[CARD.holder] ? card[CARD.holder] : STATE_TEXT[stateOf(card)];
      others.set(text, (others.get(text) || 0) + 1);
    }
  }
  /* Replicas of one role with a card each share a word: chat/0-3. */
  for (const [name, { work, count }] of owners) {
    const base = work[0][WORK.base];
    const replica = name.slice(base.length + 1);
    const single = work.length === 1 && count === 1 && /^\d+$/.test(replica);
    if (single && alike.has(base)) alike.get(base).push(Number(replica));
    else if (single) { alike.set(base, [Number(replica)]); parts.push(base); }
    else parts.push(count > 1 ? `${name} on ${count}` : name);
  }
  for (const [at, part] of parts.entries()) if (alike.has(part)) parts[at] = `${part}/${spans(alike.get(part).sort((left, right) => left - right))}`;
  for (const at of node[NODE.cpuWork] || []) parts.push(`${DATA.placed[at][WORK.name]} on the CPU`);
  for (const [text, count] of others) parts.push(`${count} ${text}`);
  return parts.join(", ");
}
/* A class with its size, where its name does not say it. */
function kindText(kind) {
  const name = kind[KIND.cls] || kind[KIND.name] || "unknown class";
  return known(kind[KIND.gb]) && !name.includes(`${kind[KIND.gb]}gb`) ? `${name} ${kind[KIND.gb]} GB` : name;
}
function classText(node) {
  const kinds = new Map();
  for (const card of cardsOf(node)) {
    const kind = kindOf(card);
    const text = kindText(kind);
    kinds.set(text, (kinds.get(text) || 0) + 1);
  }
  return [...kinds].map(([text, count]) => (count > 1 ? `${count} \u00d7 ${text}` : text)).join(", ");
}
function tile(at, result) {
  const node = nodes[at];
  const small = asked.size === "small";
  const cards = cardsOf(node);
  const free = cards.filter((card) => stateOf(card) === "free").length;
  const head = el("span", { class: "n-head" }, el("span", { class: "n-name" }, bdi(node[NODE.name])));
  if (node[NODE.state] !== "ready") head.append(el("span", { class: `tag ${node[NODE.state] === "unreachable" ? "error" : "warning"}` }, node[NODE.state]));
  const failed = (node[NODE.live] || []).filter((one) => DATA.live[one][LIVE.state] === "failed").length;
  if (failed) head.append(el("span", { class: "tag error" }, `${failed} failed`));
  const broken = cards.filter((card) => ["unhealthy", "broken"].includes(stateOf(card))).length;
  if (broken && !small) head.append(el("span", { class: "tag error" }, `${broken} broken`));
  const none = node[NODE.cards] ? "no GPUs" : "GPUs not known";
  if (!small || !cards.length) head.append(el("span", { class: "n-class" }, bdi(classText(node) || none)));
  if (free) head.append(el("span", { class: "n-free" }, `${free} free`));
  const summary = el("summary", null, head);
  let beside = false;
  if (cards.length) {
    const drawn = strip(node, small, result && result.cards);
    beside = drawn.beside;
    summary.append(drawn.made);
  }
  const text = caption(node, false);
  if (text && !beside) summary.append(el("span", { class: "n-caption" }, bdi(text)));
  const details = el("details", { class: "node", "data-node": at }, summary);
  const item = el("li", { class: "tile" }, details);
  details.addEventListener("toggle", () => {
    item.classList.toggle("wide", details.open);
    if (details.open && !details.querySelector(".node-body")) details.append(nodeBody(at));
    if (!printing) {
      if (details.open) asked.node = node[NODE.name];
      else if (asked.node === node[NODE.name]) asked.node = "";
      writeHash();
    }
  });
  return item;
}

/* ---- details of a node ---- */
function table(heads, rows, label) {
  const head = el("tr", null, ...heads.map((text) => el("th", { scope: "col" }, text)));
  const body = rows.map((cells) => el("tr", null, ...cells.map((cell, at) => {
    const made = el(at ? "td" : "th", at ? { "data-label": heads[at] } : { scope: "row", "data-label": heads[0] === "GPU" ? "GPU" : null });
    if (cell instanceof Node) made.append(cell);
    else made.append(known(cell) && cell !== "" ? bdi(cell) : el("span", { class: "muted" }, "-"));
    return made;
  })));
  const made = el("table", { class: "stack" }, el("caption", { class: "sr" }, label), el("thead", null, head), el("tbody", null, ...body));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, made);
}
/* 0-7 for a run of indices. */
function spans(indices) {
  const runs = [];
  for (const at of indices) {
    const last = runs[runs.length - 1];
    if (last && last[1] === at - 1) last[1] = at;
    else runs.push([at, at]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
}
function models(at) {
  const names = DATA.lists[at];
  if (!names.length) return el("span", { class: "muted" }, "none");
  const shown = names.slice(0, 8).map((name) => el("span", { class: "part" }, bdi(name)));
  if (names.length <= 10) return el("span", null, ...shown);
  return el("span", null, ...shown, el("details", { class: "inline" }, el("summary", null, `${names.length - 8} more`), ...names.slice(8).map((name) => el("span", { class: "part" }, bdi(name)))));
}
const gb = (mib) => (known(mib) ? `${number(Math.round(mib / 102.4) / 10)} GB` : null);
function duration(seconds) {
  if (!known(seconds)) return null;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min` : minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} d`;
}
function fact(list, name, value) {
  if (!known(value) || value === "") return;
  list.append(el("dt", null, name), el("dd", null, value instanceof Node ? value : bdi(value)));
}
function nodeBody(at) {
  const node = nodes[at];
  const body = el("div", { class: "node-body" });
  const list = el("dl", { class: "facts" });
  const [cpu, cores, threads] = DATA.cpus[node[NODE.cpu]] || [];
  fact(list, "State", node[NODE.state]);
  fact(list, "Called", node[NODE.host] || null);
  fact(list, "CPU", [cpu, known(cores) ? plural(cores, "core") : null, known(threads) ? plural(threads, "thread") : null].filter(Boolean).join(", "));
  fact(list, "Memory", known(node[NODE.ram]) ? `${number(node[NODE.ram])} GB${known(node[NODE.left]) ? `, ${gb(node[NODE.left])} left for VMs` : ""}` : null);
  fact(list, "Disks", (node[NODE.disks] || []).map(([name, size]) => `${name} ${known(size) ? `${number(size)} GB` : ""}`).join(", "));
  fact(list, "Fabrics", node[NODE.fabrics].join(", "));
  fact(list, "Labels", Object.entries(node[NODE.labels]).map(([key, value]) => `${key}=${value}`).join(", "));
  for (const [path, type, shared, free] of node[NODE.storage] || []) fact(list, "Storage", `${path}${type ? ` (${type}${shared ? ", shared" : ""})` : ""}${known(free) ? `, ${number(free)} GB free` : ""}`);
  const loss = document.querySelector(`tr[data-loss="${at}"]`);
  if (loss) fact(list, "If it is lost", `${loss.querySelector(".tag").textContent === "yes" ? "everything finds another place" : "something stays without a place"}: ${loss.lastElementChild.textContent}`);
  body.append(list);
  if (node[NODE.notes]) body.append(el("h4", null, "Notes"), el("ul", { class: "plain" }, ...node[NODE.notes].map((note) => el("li", null, bdi(note)))));
  const cards = cardsOf(node);
  if (cards.length) {
    body.append(el("h4", null, "GPUs"), table(["GPU", "Class", "State", "Who", "Compute", "Driver", "Address", "UUID"], cards.map((card) => {
      const kind = kindOf(card);
      return [
        card[CARD.index], kindText(kind),
        `${STATE_TEXT[stateOf(card)]}${card[CARD.health] ? `: ${card[CARD.health]}` : ""}`,
        workOf(card).map((one) => one[WORK.name] + (one[WORK.risk] ? ` (at risk: ${one[WORK.risk]})` : "")).join(", ") || card[CARD.holder],
        known(kind[KIND.cap]) ? (Number.isInteger(kind[KIND.cap]) ? `${kind[KIND.cap]}.0` : kind[KIND.cap]) : null, kind[KIND.driver],
        known(card[CARD.pci]) ? el("span", { class: "mono" }, bdi(card[CARD.pci])) : null, known(card[CARD.uuid]) ? el("span", { class: "mono" }, bdi(card[CARD.uuid])) : null,
      ];
    }), `GPUs of ${node[NODE.name]}`));
    body.lastElementChild.classList.add("wide-2");
    const fitting = new Map();
    for (const card of cards) {
      const fit = known(card[CARD.fits]) ? card[CARD.fits] : (workOf(card)[0] || [])[WORK.fits];
      if (known(fit)) fitting.set(fit, [...(fitting.get(fit) || []), card[CARD.index]]);
    }
    if (fitting.size) {
      const rows = el("dl", { class: "facts" });
      for (const [fit, indices] of fitting) fact(rows, `GPU${indices.length === 1 ? "" : "s"} ${spans(indices)}`, models(fit));
      body.append(el("h4", null, "Models that fit one GPU"), rows);
    }
  }
  const work = [...new Set([...(node[NODE.cpuWork] || []), ...cards.flatMap((card) => card[CARD.by] || [])])].map((one) => DATA.placed[one]);
  if (work.length) {
    body.append(el("h4", null, "Machines"), table(["What", "Engine", "Machine", "Memory", "Weights", "Why"],
      work.map((one) => [one[WORK.name], one[WORK.engine], one[WORK.vm], gb(one[WORK.mib]), one[WORK.weights], one[WORK.why]]), `Machines on ${node[NODE.name]}`));
  }
  const live = (node[NODE.live] || []).map((one) => DATA.live[one]);
  if (live.length) {
    body.append(el("h4", null, "Observed"), table(["Slot", "State", "Serves", "Running", "Waiting", "Idle", "Made from"], live.map((one) => [
      one[LIVE.id], `${one[LIVE.state]}${one[LIVE.reason] ? `: ${one[LIVE.reason]}` : ""}`,
      known(one[LIVE.model]) ? `${one[LIVE.model]}${one[LIVE.simulated] ? " (simulated)" : ""}` : null,
      one[LIVE.running], one[LIVE.waiting], duration(one[LIVE.idle]), one[LIVE.drift],
    ]), `What was observed on ${node[NODE.name]}`));
  }
  const weights = node[NODE.weights];
  body.append(el("h4", null, "Weights"));
  if (!known(weights)) body.append(el("p", { class: "muted" }, "not queried"));
  else if (!weights.length) body.append(el("p", { class: "muted" }, "none found"));
  else body.append(table(["Model", "GB", "Where", "Path"], weights.map((one) => DATA.weights[one]).map(([name, size, shared, path]) => [name, known(size) ? number(size) : null, shared ? "shared" : "on the node", path]), `Weights on ${node[NODE.name]}`));
  return body;
}

/* ---- groups of tiles ---- */
const shown = [];
const watcher = "IntersectionObserver" in window ? new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) /** @type {any} */ (entry.target).fill();
}, { rootMargin: "800px" }) : null;
let results = null;
let printing = false;
function fillGroup(group, all) {
  if (!group.list) {
    group.list = el("ul", { class: `tiles ${asked.size}`, "aria-label": group.name });
    group.details.append(group.list);
    group.drawn = 0;
  }
  const until = all || !watcher ? group.nodes.length : Math.min(group.nodes.length, group.drawn + CHUNK);
  if (group.sentinel) { watcher.unobserve(group.sentinel); group.sentinel.remove(); group.sentinel = null; }
  const made = document.createDocumentFragment();
  for (; group.drawn < until; group.drawn += 1) {
    const at = group.nodes[group.drawn];
    made.append(tile(at, results && results[at]));
  }
  group.list.append(made);
  if (group.drawn < group.nodes.length) {
    group.sentinel = el("li", { class: "sentinel", "aria-hidden": "true" });
    group.sentinel.fill = () => fillGroup(group, false);
    group.list.append(group.sentinel);
    watcher.observe(group.sentinel);
  }
}
function bar(counts, total, label) {
  const made = svg("svg", { class: "bar", role: "img", "aria-label": label, width: "100%", height: 10 });
  let x = 0;
  for (const state of BAR) {
    const width = 100 * (counts[state] || 0) / (total || 1);
    if (!width) continue;
    const shape = { x: `${x.toFixed(2)}%`, width: `${width.toFixed(2)}%`, height: 10 };
    made.append(svg("rect", { ...shape, class: `fill ${state === "broken" ? "used" : state}` }));
    if (HATCHED.has(state)) made.append(svg("rect", { ...shape, class: `over ${state}` }));
    x += width;
  }
  return made;
}
function drawGroups() {
  measure();
  const grouping = groupings.get(asked.by).of;
  const members = new Map();
  const kept = new Map(forced);
  let total = 0;
  nodes.forEach((node, at) => {
    if (results && !results[at]) return;
    const name = grouping(node);
    if (!members.has(name)) members.set(name, []);
    members.get(name).push(at);
    total += 1;
  });
  const parent = byId("groups");
  for (const group of shown) if (group.sentinel) watcher.unobserve(group.sentinel);
  shown.length = 0;
  const made = document.createDocumentFragment();
  for (const name of [...members.keys()].sort(order)) {
    const own = members.get(name);
    const counts = {};
    let cards = 0;
    for (const at of own) for (const card of cardsOf(nodes[at])) { counts[stateOf(card)] = (counts[stateOf(card)] || 0) + 1; cards += 1; }
    const text = BAR.filter((state) => counts[state]).map((state) => `${number(counts[state])} ${STATE_TEXT[state]}`).join(", ") || "no GPUs";
    const details = el("details", { class: "group" }, el("summary", null,
      el("h3", null, bdi(name), " ", el("span", { class: "count" }, plural(own.length, "node"))),
      bar(counts, cards, text), el("span", { class: "g-counts" }, text)));
    const group = { name, nodes: own, details, list: null, drawn: 0, sentinel: null };
    shown.push(group);
    const open = kept.has(name) ? kept.get(name) : total <= OPEN || own.some((at) => nodes[at][NODE.name] === asked.node);
    if (open) { details.open = true; fillGroup(group, false); }
    details.addEventListener("toggle", () => { if (details.open && !group.list) fillGroup(group, false); });
    details.firstElementChild.addEventListener("click", () => forced.set(name, !details.open));
    made.append(details);
  }
  parent.replaceChildren(made);
  if (!members.size) parent.append(el("p", { class: "muted" }, nodes.length ? "Nothing matches." : "No node is known."));
}
function openNode(name) {
  for (const group of shown) {
    const place = group.nodes.findIndex((at) => nodes[at][NODE.name] === name);
    if (place < 0) continue;
    group.details.open = true;
    if (group.drawn <= place) fillGroup(group, true);
    const details = group.list.children[place].firstElementChild;
    details.open = true;
    details.scrollIntoView();
    return;
  }
}

/* ---- filter ---- */
function filter() {
  const terms = parse(asked.q);
  for (const key of ["state", "class"]) if (asked[key]) terms.push({ key, value: asked[key].toLowerCase(), exact: true });
  if (asked.what) {
    const at = asked.what.indexOf(":");
    terms.push({ key: asked.what.slice(0, at), value: asked.what.slice(at + 1).toLowerCase(), exact: true });
    if (!FIELDS[terms[terms.length - 1].key]) terms.pop();
  }
  const allCards = nodes.reduce((sum, node) => sum + cardsOf(node).length, 0);
  byId("clear").hidden = !terms.length;
  if (!terms.length) {
    results = null;
    byId("count").textContent = `${plural(nodes.length, "node")}, ${plural(allCards, "GPU")}`;
    return;
  }
  if (!index) index = makeIndex();
  let nodeCount = 0;
  let cardCount = 0;
  results = index.map(({ fields, units }) => {
    const hits = units.map((one) => terms.every((term) => fits(term, fields, one)));
    if (!hits.includes(true)) return null;
    nodeCount += 1;
    units.forEach((one, at) => { cardCount += hits[at] && one.card; });
    return { cards: hits };
  });
  byId("count").textContent = `${number(nodeCount)} of ${plural(nodes.length, "node")}, ${number(cardCount)} of ${plural(allCards, "GPU")} match`;
}
function apply() {
  filter();
  drawGroups();
  writeHash();
}
function showAsked() {
  byId("q").value = asked.q;
  byId("f-state").value = asked.state;
  byId("f-class").value = asked.class;
  byId("f-what").value = asked.what;
  byId("by").value = asked.by;
  byId("size").value = asked.size;
}
function clear() {
  Object.assign(asked, { q: "", state: "", class: "", what: "" });
  forced = new Map();
  showAsked();
  apply();
}
function ask(values) {
  Object.assign(asked, { q: "", state: "", class: "", what: "", node: "" }, values);
  forced = new Map();
  showAsked();
  apply();
  byId("fleet").scrollIntoView();
  byId("q").focus({ preventScroll: true });
}

/* ---- plan ---- */
function planBody(kind, base) {
  const where = new Map();
  nodes.forEach((node) => {
    const add = (at, card) => {
      const work = DATA.placed[at];
      if (work[WORK.base] !== base || (work[WORK.kind] ? "model" : "role") !== kind) return;
      if (!where.has(at)) where.set(at, { node: node[NODE.name], cards: [] });
      if (card) where.get(at).cards.push(card);
    };
    for (const card of cardsOf(node)) for (const at of card[CARD.by] || []) add(at, card);
    for (const at of node[NODE.cpuWork] || []) add(at, null);
  });
  const rows = [...where].sort((left, right) => left[0] - right[0]).map(([at, place]) => {
    const work = DATA.placed[at];
    const link = el("a", { href: "#fleet", class: "find" }, bdi(place.node));
    link.addEventListener("click", (event) => { event.preventDefault(); goTo(place.node); });
    return [work[WORK.name], link, place.cards.map((card) => card[CARD.index]).join(", ") || "CPU", work[WORK.vm], gb(work[WORK.mib]), work[WORK.weights],
      (work[WORK.risk] ? `at risk (${work[WORK.risk]}): ` : "") + (work[WORK.why] || "")];
  });
  return rows.length ? table(["Replica", "Node", "GPUs", "Machine", "Memory", "Weights", "Why there"], rows, `Placements of ${base}`) : el("p", { class: "muted" }, "It has no place.");
}
function goTo(name) {
  ask({ q: "" });
  asked.node = name;
  openNode(name);
  const details = [...findAll("details.node")].find((one) => nodes[one.dataset.node][NODE.name] === name);
  if (details) details.querySelector("summary").focus();
}

/* ---- start ---- */
function option(value, text) { return el("option", { value }, text); }
function start() {
  findGroupings();
  for (const [key, { text }] of groupings) byId("by").append(option(key, text));
  const states = new Set();
  const classes = new Set();
  for (const node of nodes) {
    states.add(node[NODE.state]);
    for (const card of cardsOf(node)) { states.add(stateOf(card)); classes.add(kindOf(card)[KIND.cls] || ""); }
  }
  const live = new Set(DATA.live.flatMap((one) => [one[LIVE.state], one[LIVE.drift] === "stale" ? "stale" : "", one[LIVE.simulated] ? "simulated" : "", known(one[LIVE.idle]) && one[LIVE.idle] >= IDLE_SECONDS ? "idle" : ""]));
  if (DATA.placed.some((one) => one[WORK.risk])) live.add("at risk");
  const all = new Set([...states, ...live].filter(Boolean));
  for (const value of [...all].sort(order)) byId("f-state").append(option(value, STATE_TEXT[value] || value));
  for (const value of [...classes].filter(Boolean).sort(order)) byId("f-class").append(option(value, value));
  const what = new Map();
  for (const one of DATA.placed) what.set(`${one[WORK.kind] ? "model" : "role"}:${one[WORK.base]}`, one[WORK.base]);
  for (const one of DATA.live) if (one[LIVE.model] && !what.has(`model:${one[LIVE.model]}`)) what.set(`model:${one[LIVE.model]}`, one[LIVE.model]);
  for (const [value, text] of [...what].sort((left, right) => order(left[1], right[1]))) byId("f-what").append(option(value, `${text} (${value.slice(0, value.indexOf(":"))})`));
  Object.assign(asked, defaults);
  readHash();
  showAsked();
  for (const id of nodes.length > 1 ? ["tools", "found", "theme"] : ["theme"]) byId(id).hidden = false;
  byId("tools").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, key] of [["q", "q"], ["f-state", "state"], ["f-class", "class"], ["f-what", "what"], ["by", "by"], ["size", "size"]]) {
    byId(id).addEventListener("input", () => {
      asked[key] = byId(id).value;
      forced = new Map();
      apply();
    });
  }
  byId("clear").addEventListener("click", () => { clear(); byId("q").focus(); });
  byId("open-all").addEventListener("click", () => { for (const group of shown) { forced.set(group.name, true); group.details.open = true; } });
  byId("close-all").addEventListener("click", () => { for (const group of shown) { forced.set(group.name, false); group.details.open = false; } });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(/** @type {Element} */ (event.target).tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); byId("q").focus(); byId("q").select(); }
    if (event.key === "Escape" && event.target === byId("q")) { event.preventDefault(); clear(); }
  });
  for (const link of findAll("a[data-find], a[data-class]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const { find, class: cls } = link.dataset;
      ask(cls === undefined ? { q: /^fabric:/.test(find) ? find : `"${find.replaceAll('"', " ")}"` } : { class: cls });
    });
  }
  for (const row of findAll("details.work")) {
    row.addEventListener("toggle", () => {
      const body = row.querySelector(".work-body");
      if (row.open && !body.firstChild) body.append(planBody(row.dataset.kind, row.dataset.base));
    });
  }
  window.addEventListener("hashchange", () => { if (readHash()) { showAsked(); apply(); if (asked.node) openNode(asked.node); } });
  window.addEventListener("pagehide", writeHashNow);
  /* The first search finds its index made. */
  const idle = window.requestIdleCallback || ((made) => setTimeout(made, 200));
  idle(() => { if (!index) index = makeIndex(); });
  theme();
  print();
  const node = asked.node;
  apply();
  if (node) openNode(node);
  /* One machine is the whole picture. */
  if (nodes.length === 1) for (const details of findAll("details.node")) details.open = true;
}

function theme() {
  const names = ["system", "light", "dark"];
  let at = 0;
  try { at = Math.max(0, names.indexOf(localStorage.getItem("knaster-theme"))); } catch { /* no storage: the system decides */ }
  const show = () => {
    if (at) document.documentElement.dataset.theme = names[at];
    else delete document.documentElement.dataset.theme;
    byId("theme-name").textContent = names[at];
  };
  byId("theme").addEventListener("click", () => {
    at = (at + 1) % names.length;
    try { localStorage.setItem("knaster-theme", names[at]); } catch { /* kept for this view only */ }
    show();
  });
  show();
}
/* Paper shows what is folded; nodes in full only where they are few. */
function print() {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    printing = true;
    const open = (one) => { if (!one.open) { one.open = true; opened.push(one); } };
    for (const group of shown) { open(group.details); fillGroup(group, true); }
    for (const one of findAll("details.rest, details.inline, details.work")) {
      open(one);
      const body = one.querySelector(".work-body");
      if (body && !body.firstChild) body.append(planBody(one.dataset.kind, one.dataset.base));
    }
    if (nodes.length <= 8) {
      for (const one of findAll("details.node")) {
        open(one);
        one.parentElement.classList.add("wide");
        if (!one.querySelector(".node-body")) one.append(nodeBody(Number(one.dataset.node)));
      }
    }
  });
  window.addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
    opened = [];
    setTimeout(() => { printing = false; }, 0);
  });
}
start();
})();
