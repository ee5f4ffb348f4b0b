// What the run was: events, messages and states of nodes, and where in them the reader is.
//
// Owns the recording and the selected event; knows nothing of the screen. An event is named by its index among all
// events, a row by its place among those that the filters leave. Arrays as `pykraft.sim.page.render` writes them:
//   event    [at_us, node or 0, kind, payload]   kind: s(ent) a(rrived) c(hanged) f(ault) n(ote) v(iolation)
//   payload  s, a: index of a message; c: a state; f, n, v: text
//   message  [source, target, kind, text, index of the event of sending, index of the arrival; -1: still on its way, -2: lost]
//   state    [role, epoch, leader, vote, epoch of the vote, log end, flushed, high watermark, in quarantine, voters]; null: not known
const AT = 0, NODE = 1, KIND = 2, PAYLOAD = 3;
const SOURCE = 0, TARGET = 1, NAME = 2, TEXT = 3, SENT_AT = 4, ARRIVED_AT = 5;
const ROLE = 0, EPOCH = 1, LEADER = 2, VOTE = 3, VOTE_EPOCH = 4, LOG_END = 5, FLUSHED = 6, HIGH_WATERMARK = 7, DAMAGED = 8, VOTERS = 9;
const CAMPAIGNS = ["prospective", "candidate", "leader"];
const DECIDED = [ROLE, EPOCH, LEADER, VOTE, VOTE_EPOCH, HIGH_WATERMARK];
const KIND_GROUPS = [
  { id: "elections", label: "votes, leadership", holds: (event) => isMessage(event) && !isFetch(event) },
  { id: "fetches", label: "Fetch and its answers", isHidden: true, holds: (event) => isMessage(event) && isFetch(event) },
  { id: "states", label: "states", holds: (event) => event[KIND] === "c" },
  { id: "faults", label: "faults", holds: (event) => event[KIND] === "f" },
  { id: "notes", label: "notes", holds: (event) => event[KIND] === "n" },
];

const run = JSON.parse(document.getElementById("recording").textContent);
const statesOf = new Map(run.nodes.map((node) => [node.id, { at: [], states: [] }]));
run.events.forEach((event, index) => {
  if (event[KIND] === "c") {
    const known = statesOf.get(event[NODE]);
    known.at.push(index);
    known.states.push(event[PAYLOAD]);
  }
});
const view = { selected: 0, rows: [], rowOf: new Int32Array(run.events.length), shownNodes: new Set(), shownGroups: new Set() };

function isMessage(event) {
  return event[KIND] === "s" || event[KIND] === "a";
}

function messageOf(event) {
  return run.messages[event[PAYLOAD]];
}

function isFetch(event) {
  return messageOf(event)[NAME].startsWith("Fetch");
}

/** The last of ascending numbers that is not above the limit: its index, or -1. */
function lastNotAbove(numbers, limit) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** State of a node right after an event; null before its first. */
function stateAt(nodeId, index) {
  const known = statesOf.get(nodeId);
  const place = lastNotAbove(known.at, index);
  return place < 0 ? null : known.states[place];
}

/** State of a node right before an event. */
function stateBefore(nodeId, index) {
  return stateAt(nodeId, index - 1);
}

/** Nodes that an event is about: both ends of a message. */
function nodesOf(event) {
  if (isMessage(event)) return [messageOf(event)[SOURCE], messageOf(event)[TARGET]];
  return event[NODE] ? [event[NODE]] : [];
}

function isShown(event) {
  if (event[KIND] === "v") return true;
  const nodes = nodesOf(event);
  if (nodes.length && !nodes.some((nodeId) => view.shownNodes.has(nodeId))) return false;
  return KIND_GROUPS.some((group) => view.shownGroups.has(group.id) && group.holds(event));
}

/** Apply the filters anew; the selection moves to the next event that is left. */
function refilter() {
  view.rows = [];
  run.events.forEach((event, index) => {
    view.rowOf[index] = -1;
    if (isShown(event)) {
      view.rowOf[index] = view.rows.length;
      view.rows.push(index);
    }
  });
  if (view.rows.length && view.rowOf[view.selected] < 0) {
    view.selected = view.rows[Math.max(0, lastNotAbove(view.rows, view.selected))];
  }
}

/** The next shown event in a direction (1 or -1) for which something holds; null when there is none. */
function findFrom(index, direction, holds) {
  const at = lastNotAbove(view.rows, index);
  for (let row = direction > 0 ? at + 1 : view.rows[at] === index ? at - 1 : at; row >= 0 && row < view.rows.length; row += direction) {
    if (holds(run.events[view.rows[row]], view.rows[row])) return view.rows[row];
  }
  return null;
}

/** Role without what a vote adds to its name. */
function plainRole(state) {
  return state ? state[ROLE].replace("-voted", "") : "down";
}

/** A node becomes prospective, candidate or leader. */
function isElection(event, index) {
  const role = event[KIND] === "c" ? plainRole(event[PAYLOAD]) : "";
  return CAMPAIGNS.includes(role) && plainRole(stateBefore(event[NODE], index)) !== role;
}

/** A node's role, epoch, leader, vote or high watermark changes: all of its state but how far its log reaches. */
function isDecision(event, index) {
  const before = event[KIND] === "c" ? stateBefore(event[NODE], index) : null;
  return before !== null && DECIDED.some((field) => before[field] !== event[PAYLOAD][field]);
}

/** What changed between two states of a node, in words. */
function changesBetween(before, after) {
  if (!before || before[ROLE] !== after[ROLE] && (before[ROLE] === "down" || after[ROLE] === "down")) {
    return [after[ROLE] === "down" ? "is down" : `runs: ${after[ROLE]} in epoch ${after[EPOCH]}${after[DAMAGED] ? ", in quarantine" : ""}`];
  }
  const said = [];
  if (before[DAMAGED] !== after[DAMAGED]) said.push(after[DAMAGED] ? "in quarantine" : "out of quarantine");
  if (before[ROLE] !== after[ROLE]) said.push(`becomes ${after[ROLE]}`);
  if (before[EPOCH] !== after[EPOCH]) said.push(`epoch ${before[EPOCH]} → ${after[EPOCH]}`);
  if (before[LEADER] !== after[LEADER] && after[LEADER] !== null && plainRole(after) !== "leader") {
    said.push(`follows node ${after[LEADER]}`);
  }
  if (before[VOTE] !== after[VOTE] || (after[VOTE] !== null && before[VOTE_EPOCH] !== after[VOTE_EPOCH])) {
    said.push(after[VOTE] === null ? "no vote on disk" : `vote for ${after[VOTE]} on disk`);
  } else if (before[VOTE_EPOCH] !== after[VOTE_EPOCH]) said.push(`epoch ${after[VOTE_EPOCH]} on disk`);
  for (const [field, name] of [[LOG_END, "log end"], [FLUSHED, "flushed"], [HIGH_WATERMARK, "high watermark"], [VOTERS, "voters"]]) {
    if (before[field] !== after[field]) said.push(`${name} ${orNone(before[field])} → ${orNone(after[field])}`);
  }
  return said;
}

function orNone(value) {
  return value === null ? "–" : String(value);
}

/** One line about an event. */
function lineOf(index) {
  const event = run.events[index];
  switch (event[KIND]) {
    case "s": {
      const message = messageOf(event);
      return `→ ${message[TARGET]}  ${message[NAME]}: ${message[TEXT]}`;
    }
    case "a":
      return `← ${messageOf(event)[SOURCE]}  ${messageOf(event)[NAME]}`;
    case "c":
      return changesBetween(stateBefore(event[NODE], index), event[PAYLOAD]).join(", ") || "first state";
    case "f":
      return `fault: ${event[PAYLOAD]}`;
    case "v":
      return `broken: ${event[PAYLOAD]}`;
    default:
      return event[PAYLOAD];
  }
}
