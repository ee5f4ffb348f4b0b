// The picture: one row an event, one lane a node, and only what is in sight.
//
// Owns the canvases; reads the model and changes nothing in it. Rows have one height, so that ten thousand of them
// scroll as quickly as ten: each drawing looks at the rows in sight and at the messages that begin or end in them.
const ROW = 24, LANE_TOP = 8, BAND = 12, REACH = 400, NARROW = 600, NARROW_TIME = 64, WIDE_TIME = 92;
const ROLES = ["leader", "follower", "observer", "candidate", "prospective", "resigned", "unattached"];
const diagram = document.getElementById("diagram");
const scroller = document.getElementById("scroller");
const overview = document.getElementById("overview");
const laneX = new Map();
let laneWidth = 0, timeWidth = WIDE_TIME;
let colors = {};

/** The colors of the style sheet, which knows whether the screen is light or dark. */
function readColors() {
  const style = getComputedStyle(document.documentElement);
  colors = new Proxy({}, { get: (known, name) => known[name] ??= style.getPropertyValue(`--${name}`).trim() });
}

function roleColor(role) {
  return colors[ROLES.includes(role) ? role : "unattached"];
}

function fit(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

function layLanes(width) {
  timeWidth = width < NARROW ? NARROW_TIME : WIDE_TIME;
  laneWidth = (width - timeWidth) / run.nodes.length;
  const begin = Math.min(26, laneWidth / 2);
  run.nodes.forEach((node, place) => laneX.set(node.id, timeWidth + laneWidth * place + begin));
}

function rowY(row) {
  return LANE_TOP + row * ROW + ROW / 2 - scroller.scrollTop;
}

function timeOf(event) {
  return `${(event[AT] / 1e3).toFixed(3)} ms`;
}

/** As exact as there is room for. */
function shortTimeOf(event) {
  return timeWidth === WIDE_TIME ? timeOf(event) : (event[AT] / 1e3).toFixed(1);
}

function draw() {
  const width = scroller.clientWidth, height = scroller.clientHeight;
  const pen = fit(diagram, width, height);
  layLanes(width);
  const first = Math.max(0, Math.floor((scroller.scrollTop - LANE_TOP) / ROW) - 1);
  const last = Math.min(view.rows.length - 1, first + Math.ceil(height / ROW) + 2);
  if (last < first) return;
  drawSelection(pen, width);
  for (const node of run.nodes) drawLane(pen, node.id, first, last);
  drawMessages(pen, first, last);
  for (let row = first; row <= last; row++) drawRow(pen, row, width);
}

function drawSelection(pen, width) {
  const row = view.rowOf[view.selected];
  if (row < 0) return;
  pen.fillStyle = run.events[view.selected][KIND] === "v" ? colors.violated : colors.selected;
  pen.fillRect(0, rowY(row) - ROW / 2, width, ROW);
}

/** A band in the color of the role, from state to state; where the node is down, only its outline. */
function drawLane(pen, nodeId, first, last) {
  const x = laneX.get(nodeId), known = statesOf.get(nodeId);
  const top = rowY(first) - ROW / 2, bottom = rowY(last) + ROW / 2;
  const changes = [];
  const begin = lastNotAbove(known.at, view.rows[first]);
  changes.push([top, begin < 0 ? null : known.states[begin]]);
  for (let place = begin + 1; place < known.at.length && known.at[place] <= view.rows[last]; place++) {
    const row = lastNotAbove(view.rows, known.at[place]);
    changes.push([rowY(row), known.states[place]]);
  }
  changes.forEach(([y, state], place) => {
    const end = place + 1 < changes.length ? changes[place + 1][0] : bottom;
    const role = plainRole(state);
    pen.globalAlpha = view.shownNodes.has(nodeId) ? 1 : 0.25;
    if (role === "down") {
      pen.strokeStyle = colors.dash;
      pen.setLineDash([3, 4]);
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x, end);
      pen.stroke();
      pen.setLineDash([]);
    } else {
      pen.fillStyle = roleColor(role);
      pen.fillRect(x - BAND / 2, y, BAND, end - y);
    }
    pen.globalAlpha = 1;
  });
}

/** Arrows whose one end at least is in sight; what never arrives ends in a cross. */
function drawMessages(pen, first, last) {
  const drawn = new Set();
  const selected = run.events[view.selected];
  const lit = isMessage(selected) ? selected[PAYLOAD] : -1;
  for (let row = Math.max(0, first - REACH); row <= Math.min(view.rows.length - 1, last + REACH); row++) {
    const event = run.events[view.rows[row]];
    if (!isMessage(event) || drawn.has(event[PAYLOAD])) continue;
    drawn.add(event[PAYLOAD]);
    const message = messageOf(event);
    const from = view.rowOf[message[SENT_AT]];
    const to = message[ARRIVED_AT] < 0 ? from : view.rowOf[message[ARRIVED_AT]];
    if (from < 0 || to < 0 || Math.max(from, to) < first || Math.min(from, to) > last) continue;
    drawArrow(pen, message, from, to, event[PAYLOAD] === lit);
  }
}

function drawArrow(pen, message, from, to, isLit) {
  const x = laneX.get(message[SOURCE]), y = rowY(from), target = laneX.get(message[TARGET]);
  const isLost = message[ARRIVED_AT] < 0;
  const side = Math.sign(target - x) || 1;
  const endX = isLost ? x + side * Math.min(90, Math.abs(target - x) / 2) : target - side * (BAND / 2 + 1);
  const endY = isLost ? y + ROW * 0.6 : rowY(to);
  const isOnItsWay = message[ARRIVED_AT] === -1;
  const color = isLit ? colors.lit : isLost && !isOnItsWay ? colors.lost
    : message[NAME].startsWith("Fetch") ? colors.fetch : colors.election;
  pen.strokeStyle = pen.fillStyle = color;
  pen.globalAlpha = isLit ? 1 : 0.45;
  pen.lineWidth = isLit ? 2.5 : 1.2;
  pen.beginPath();
  pen.moveTo(x + side * (BAND / 2), y);
  pen.lineTo(endX, endY);
  pen.stroke();
  if (isLost && !isOnItsWay) cross(pen, endX, endY);
  else arrowHead(pen, x, y, endX, endY);
  pen.globalAlpha = 1;
  pen.lineWidth = 1;
}

function arrowHead(pen, fromX, fromY, x, y) {
  const angle = Math.atan2(y - fromY, x - fromX);
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x - 8 * Math.cos(angle - 0.4), y - 8 * Math.sin(angle - 0.4));
  pen.lineTo(x - 8 * Math.cos(angle + 0.4), y - 8 * Math.sin(angle + 0.4));
  pen.fill();
}

function cross(pen, x, y) {
  pen.beginPath();
  pen.moveTo(x - 4, y - 4);
  pen.lineTo(x + 4, y + 4);
  pen.moveTo(x - 4, y + 4);
  pen.lineTo(x + 4, y - 4);
  pen.stroke();
}

function drawRow(pen, row, width) {
  const index = view.rows[row], event = run.events[index], y = rowY(row);
  pen.textBaseline = "middle";
  pen.font = "12px ui-monospace, monospace";
  pen.fillStyle = colors.soft;
  pen.fillText(shortTimeOf(event), 6, y);
  if (event[KIND] === "f" || event[KIND] === "v" || !event[NODE]) return drawAcross(pen, event, index, y, width);
  const x = laneX.get(event[NODE]);
  pen.fillStyle = colors.paper;
  pen.beginPath();
  pen.arc(x, y, event[KIND] === "n" ? 2 : 3, 0, 7);
  pen.fill();
  pen.font = event[KIND] === "c" ? "bold 12px system-ui, sans-serif" : "12px system-ui, sans-serif";
  pen.fillStyle = event[KIND] === "a" || event[KIND] === "n" ? colors.soft : colors.ink;
  writeBeside(pen, lineOf(index), x, y, width, row === view.rowOf[view.selected] ? colors.selected : colors.paper);
}

/** Faults and what broke stand out; they, and what concerns all nodes, have the whole row. */
function drawAcross(pen, event, index, y, width) {
  const isViolation = event[KIND] === "v", isFault = event[KIND] === "f";
  const x = event[NODE] && !isViolation ? laneX.get(event[NODE]) - BAND / 2 : timeWidth + 4;
  const text = isViolation ? `✖ ${lineOf(index)}` : isFault ? `⚡ ${event[PAYLOAD]}` : event[PAYLOAD];
  pen.font = isViolation || isFault ? "bold 12px system-ui, sans-serif" : "italic 12px system-ui, sans-serif";
  const room = Math.min(pen.measureText(text).width, width - x - 20);
  if (isViolation || isFault) {
    pen.fillStyle = isViolation ? colors.broken : colors.fault;
    pen.fillRect(x, y - 9, room + 12, 18);
  }
  pen.fillStyle = isViolation ? colors["on-broken"] : isFault ? colors["on-fault"] : colors.soft;
  write(pen, text, x + 6, y, room + 2, isViolation || isFault ? null : colors.paper);
}

/** To the right of the lane, over the lanes behind it, which have nothing to say in this row; or else to its left. */
function writeBeside(pen, text, x, y, width, paper) {
  const right = width - x - BAND - 6, left = x - BAND - timeWidth;
  const needed = pen.measureText(text).width;
  if (needed <= right || right >= left / 2) return write(pen, text, x + BAND, y, right, paper);
  write(pen, text, x - BAND - Math.min(needed, left), y, left, paper);
}

/** Text that ends in an ellipsis where there is no room; a little paper keeps lines of messages off it. */
function write(pen, text, x, y, room, paper) {
  let shown = text;
  if (pen.measureText(text).width > room) {
    let length = Math.max(1, Math.floor((text.length * room) / pen.measureText(text).width) - 1);
    while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > room) length--;
    shown = `${text.slice(0, length)}…`;
  }
  if (paper) {
    pen.lineWidth = 6;
    pen.lineJoin = "round";
    pen.strokeStyle = paper;
    pen.strokeText(shown, x, y);
    pen.lineWidth = 1;
  }
  pen.fillText(shown, x, y);
}

/** The whole run at the right edge: roles as columns, faults and the violation as marks, and what is in sight. */
function drawOverview() {
  const width = overview.clientWidth, height = scroller.clientHeight, count = view.rows.length || 1;
  const pen = fit(overview, width, height);
  const column = (width - 14) / run.nodes.length;
  run.nodes.forEach((node, place) => {
    const known = statesOf.get(node.id);
    known.at.forEach((index, change) => {
      const role = plainRole(known.states[change]);
      if (role === "down") return;
      const from = lastNotAbove(view.rows, index);
      const to = change + 1 < known.at.length ? lastNotAbove(view.rows, known.at[change + 1]) : count;
      pen.fillStyle = roleColor(role);
      pen.fillRect(2 + place * column, (from / count) * height, Math.max(1, column - 1), ((to - from) / count) * height + 0.5);
    });
  });
  run.events.forEach((event, index) => {
    if ((event[KIND] !== "f" && event[KIND] !== "v") || view.rowOf[index] < 0) return;
    pen.fillStyle = event[KIND] === "v" ? colors.broken : colors["fault-mark"];
    pen.fillRect(width - 12, (view.rowOf[index] / count) * height - 1, 12, event[KIND] === "v" ? 5 : 2);
  });
}
