// What the reader does: buttons, keys, filters and the text beside the picture.
//
// Owns the elements of the page; changes the model only through `select` and `refilter`.
const byId = (id) => document.getElementById(id);
const PLAY_MS = 180;
let playing = null;

/** Make an event the present one: texts follow, the picture scrolls when it must, and the address follows at rest. */
function select(index, isWritten = true) {
  if (index === null || index < 0 || index >= run.events.length) return;
  view.selected = index;
  const top = view.rowOf[index] * ROW, bottom = top + ROW + LANE_TOP;
  if (top < scroller.scrollTop + ROW || bottom > scroller.scrollTop + scroller.clientHeight - ROW) {
    scroller.scrollTop = Math.max(0, top - scroller.clientHeight / 2);
  }
  tell();
  tellStep();
  draw();
  placeSight();
  if (isWritten) restSoon();
}

function tell() {
  const event = run.events[view.selected];
  document.body.dataset.selected = String(view.selected);
  byId("position").textContent = `event ${view.rowOf[view.selected] + 1} of ${view.rows.length}`;
  byId("selected-title").textContent = `${timeOf(event)} · ${event[NODE] ? `node ${event[NODE]}` : "all"}`;
  const lines = byId("selected-lines");
  lines.replaceChildren(...detailsOf(view.selected).map((line) => element("li", line)));
  run.nodes.forEach((node) => tellNode(node.id, stateAt(node.id, view.selected), event));
}

function detailsOf(index) {
  const event = run.events[index];
  if (event[KIND] === "c") {
    const changes = changesBetween(stateBefore(event[NODE], index), event[PAYLOAD]);
    return changes.length ? changes : ["its first state"];
  }
  if (!isMessage(event)) return [lineOf(index)];
  const message = messageOf(event);
  const sent = run.events[message[SENT_AT]][AT];
  const lines = [`${message[NAME]} from node ${message[SOURCE]} to node ${message[TARGET]}`, message[TEXT]];
  if (event[KIND] === "a") lines.push(`it arrives now, ${((event[AT] - sent) / 1e3).toFixed(3)} ms after it was sent`);
  else if (message[ARRIVED_AT] === -2) lines.push("it is sent now and will be lost: cut link, broken connection or a node that goes down");
  else if (message[ARRIVED_AT] < 0) lines.push("it is sent now, and the run ends before it arrives");
  else lines.push(`it is sent now and arrives after ${((run.events[message[ARRIVED_AT]][AT] - sent) / 1e3).toFixed(3)} ms`);
  return lines;
}

function tellNode(nodeId, state, event) {
  const card = byId(`node-${nodeId}`);
  const isDown = plainRole(state) === "down";
  card.classList.toggle("down", isDown);
  card.classList.toggle("here", nodesOf(event).includes(nodeId) || blamed().includes(nodeId) && event[KIND] === "v");
  card.querySelector(".role").textContent = state ? state[ROLE] : "not started";
  card.querySelector(".damaged").hidden = !(state && state[DAMAGED]);
  card.querySelector(".role").dataset.role = plainRole(state);
  card.querySelector(".epoch").textContent = state ? orNone(state[EPOCH]) : "–";
  const vote = !state ? "–" : state[VOTE] === null ? `– (epoch ${state[VOTE_EPOCH]})` : `${state[VOTE]} (epoch ${state[VOTE_EPOCH]})`;
  card.querySelector(".vote").textContent = vote;
  card.querySelector(".leader").textContent = state && state[LEADER] !== null ? `node ${state[LEADER]}` : "–";
  for (const [field, name] of [[LOG_END, "end"], [FLUSHED, "flushed"], [HIGH_WATERMARK, "watermark"]]) {
    card.querySelector(`.${name}`).textContent = state ? orNone(state[field]) : "–";
  }
  drawLog(card, state);
}

/** The log as a bar: what is on the platter, what is not yet, and the high watermark. The ends of all nodes share a scale. */
function drawLog(card, state) {
  const known = run.nodes.map((node) => stateAt(node.id, view.selected)).filter(Boolean);
  const ends = known.flatMap((each) => [each[LOG_END] || 0, each[FLUSHED], each[HIGH_WATERMARK] || 0]);
  const high = Math.max(1, ...ends), low = Math.max(0, high - 40);
  const percent = (offset) => `${(100 * Math.max(0, Math.min(offset, high) - low)) / (high - low)}%`;
  const [flushed, end, mark] = [".bar-flushed", ".bar-end", ".bar-mark"].map((name) => card.querySelector(name));
  flushed.style.width = state ? percent(state[FLUSHED]) : "0";
  end.style.width = state && state[LOG_END] !== null ? percent(state[LOG_END]) : "0";
  mark.style.display = state && state[HIGH_WATERMARK] !== null ? "block" : "none";
  if (state && state[HIGH_WATERMARK] !== null) mark.style.left = percent(state[HIGH_WATERMARK]);
  card.querySelector(".bar-scale").textContent = `offsets ${low} to ${high}`;
}

function element(name, text, properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  made.textContent = text;
  return made;
}

function blamed() {
  return run.violation ? run.violation.nodes : [];
}

function makeCards() {
  const cards = byId("nodes");
  for (const node of run.nodes) {
    const card = byId("card").content.firstElementChild.cloneNode(true);
    card.id = `node-${node.id}`;
    card.querySelector(".name").textContent = nameOf(node);
    card.querySelector(".only").addEventListener("click", () => step(1, node.id));
    cards.append(card);
  }
  run.nodes.forEach((node) => byId("heads").append(element("span", "", { title: nameOf(node) })));
}

function nameOf(node) {
  return `node ${node.id}${node.votes ? "" : " (observer)"}`;
}

/** The names over the lanes, as long as there is room for. */
function placeHeads() {
  layLanes(scroller.clientWidth);
  byId("time").textContent = timeWidth === WIDE_TIME ? "time" : "ms";
  byId("heads").querySelectorAll("span").forEach((head, place) => {
    const node = run.nodes[place];
    head.textContent = laneWidth > 140 ? nameOf(node) : laneWidth > 62 ? `node ${node.id}` : `${node.id}`;
    head.style.left = `${laneX.get(node.id) - BAND / 2}px`;
  });
}

function makeFilters() {
  run.nodes.forEach((node) => {
    view.shownNodes.add(node.id);
    addFilter(`node ${node.id}`, `show-node-${node.id}`, view.shownNodes, node.id);
  });
  KIND_GROUPS.forEach((group) => {
    if (!group.isHidden) view.shownGroups.add(group.id);
    addFilter(group.label, `show-${group.id}`, view.shownGroups, group.id);
  });
}

/** Show this event; if a filter hides it, all filters are switched on. */
function reveal(index) {
  if (index === null || isShown(run.events[index])) return;
  byId("filters").querySelectorAll("input").forEach((box) => {
    if (!box.checked) box.click();
  });
}

function addFilter(label, id, shown, value) {
  const box = element("input", "", { type: "checkbox", id, checked: shown.has(value) });
  box.addEventListener("change", () => {
    if (box.checked) shown.add(value);
    else shown.delete(value);
    refilter();
    layOut();
    select(view.selected);
  });
  const holder = element("label", "");
  holder.append(box, ` ${label}`);
  byId("filters").append(holder);
}

function makeLegend() {
  for (const role of ROLES) {
    const item = element("li", role);
    const swatch = element("i", "", { className: "role" });
    swatch.dataset.role = role;
    item.prepend(swatch);
    byId("legend-roles").append(item);
  }
}

function tellViolation() {
  const box = byId("violation");
  if (!run.violation) {
    box.classList.add("fine");
    byId("violation-title").textContent = "Nothing was violated in this run";
    byId("jump").hidden = true;
    return;
  }
  byId("violation-title").textContent = run.violation.title;
  byId("violation-seen").textContent = run.violation.seen;
  byId("violation-rule").textContent = run.violation.rule;
  byId("violation-why").textContent = run.violation.why;
  const before = lastBefore();
  if (before >= 0) {
    const nodeId = run.events[before][NODE], who = nodeId ? `node ${nodeId} (${plainRole(stateAt(nodeId, before))})` : "all";
    byId("violation-before").textContent = `at ${timeOf(run.events[before])}, ${who}: ${lineOf(before)}`;
  }
  byId("violation-source").textContent = run.violation.source;
}

/** The last step before what broke, of a node that is blamed: its index, or -1. */
function lastBefore() {
  let before = run.violation.event - 1;
  const concerns = (index) => nodesOf(run.events[index]).some((nodeId) => blamed().includes(nodeId));
  if (blamed().length) while (before > 0 && !concerns(before)) before -= 1;
  return before;
}

function step(direction, nodeId) {
  select(findFrom(view.selected, direction, (event) => !nodeId || nodesOf(event).includes(nodeId)));
}

function isFault(event) {
  return event[KIND] === "f";
}

function leapTo(direction, holds) {
  jumpTo(findFrom(view.selected, direction, holds));
}

function stepHere(direction) {
  const [nodeId] = nodesOf(run.events[view.selected]);
  step(direction, run.events[view.selected][NODE] || nodeId);
}

function jump() {
  if (run.violation) jumpTo(run.violation.event);
}

function play() {
  clearTimeout(playing);
  playing = playing ? null : playLater();
  byId("play").textContent = playing ? "Pause" : "Play";
}

function playLater() {
  return setTimeout(() => {
    const before = view.selected;
    step(1);
    if (view.selected === before) play();
    else playing = playLater();
  }, PLAY_MS / byId("speed").value);
}

const ACTIONS = {
  ArrowDown: () => step(1), j: () => step(1), ArrowRight: () => step(1),
  ArrowUp: () => step(-1), k: () => step(-1), ArrowLeft: () => step(-1),
  n: () => stepHere(1), p: () => stepHere(-1),
  f: () => leapTo(1, isFault), F: () => leapTo(-1, isFault),
  e: () => leapTo(1, isElection), E: () => leapTo(-1, isElection),
  d: () => leapTo(1, isDecision), D: () => leapTo(-1, isDecision),
  l: () => leapToStep(1), L: () => leapToStep(-1),
  PageDown: () => leap(1), PageUp: () => leap(-1),
  Home: () => jumpTo(view.rows[0] ?? null), End: () => jumpTo(view.rows.at(-1) ?? null),
  v: jump, c: copyLink, " ": play,
};

function leap(direction) {
  const row = view.rowOf[view.selected] + direction * Math.max(1, Math.floor(scroller.clientHeight / ROW) - 2);
  jumpTo(view.rows[Math.max(0, Math.min(view.rows.length - 1, row))] ?? null);
}

function listen() {
  for (const [id, act] of Object.entries({
    next: () => step(1), previous: () => step(-1), "next-here": () => stepHere(1), "previous-here": () => stepHere(-1),
    "next-fault": ACTIONS.f, "previous-fault": ACTIONS.F, "next-election": ACTIONS.e, "previous-election": ACTIONS.E,
    "next-decision": ACTIONS.d, "previous-decision": ACTIONS.D, "next-lesson": ACTIONS.l, "previous-lesson": ACTIONS.L,
    jump, play, copy: copyLink,
  })) byId(id).addEventListener("click", act);
  document.addEventListener("keydown", (press) => {
    const act = ACTIONS[press.key];
    // Space is theirs, and all keys are those of a list.
    const isPressed = press.target.closest(press.key === " " ? "button, input, summary, select" : "select");
    if (!act || press.ctrlKey || press.metaKey || press.altKey || isPressed) return;
    press.preventDefault();
    act();
  });
  scroller.addEventListener("scroll", () => {
    draw();
    placeSight();
  });
  diagram.addEventListener("click", (press) => {
    const row = Math.floor((press.offsetY + scroller.scrollTop - LANE_TOP) / ROW);
    if (row >= 0 && row < view.rows.length) jumpTo(view.rows[row]);
  });
  overview.addEventListener("click", (press) => {
    jumpTo(view.rows[Math.min(view.rows.length - 1, Math.floor((press.offsetY / scroller.clientHeight) * view.rows.length))] ?? null);
  });
  new ResizeObserver(drawAnew).observe(scroller);
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", drawAnew);
  for (const change of ["popstate", "hashchange"]) window.addEventListener(change, followAddress);
}

/** After the window or the colors have changed. */
function drawAnew() {
  readColors();
  layOut();
  draw();
}

/** Sizes that depend on how many rows there are. */
function layOut() {
  placeHeads();
  byId("rows").style.height = `${view.rows.length * ROW + 2 * LANE_TOP}px`;
  drawOverview();
  placeSight();
}

function placeSight() {
  const whole = Math.max(1, view.rows.length * ROW);
  byId("sight").style.top = `${(scroller.scrollTop / whole) * scroller.clientHeight}px`;
  byId("sight").style.height = `${Math.max(4, (scroller.clientHeight / whole) * scroller.clientHeight)}px`;
}

readColors();
byId("show").open = matchMedia("(min-width: 601px)").matches;
makeCards();
makeFilters();
makeLegend();
tellViolation();
tellLesson();
refilter();
layOut();
listen();
if (run.violation && lastBefore() >= 0) reveal(lastBefore());
reveal(linked());
select(linked() ?? run.lesson?.steps[0].event ?? (run.violation ? run.violation.event : view.rows[0] ?? null), false);
document.body.dataset.ready = "true";
