// The address of an event: `#event-12` at the end of the page's address opens it at its twelfth event.
//
// A step changes the address in place, and only when the reader rests: browsers refuse to follow a key that is held
// down. A jump (a click in the picture, the next fault, election or decision, a step of a lesson, what broke, an end of the run) is a new entry of the history,
// so back and forward go from place to place and not from step to step.
const REST_MS = 250;
let resting = null;

function fragmentOf(index) {
  return `#event-${index + 1}`;
}

/** The event that the address names: its index, or null. */
function linked() {
  const found = /^#event-(\d{1,9})$/.exec(location.hash);
  return found && found[1] >= 1 && found[1] <= run.events.length ? found[1] - 1 : null;
}

/** Write the selected event into the address. */
function writeAddress(isJump) {
  clearTimeout(resting);
  resting = null;
  const fragment = fragmentOf(view.selected);
  if (fragment === location.hash) return;
  if (isJump) history.pushState(null, "", fragment);
  else history.replaceState(null, "", fragment);
}

function restSoon() {
  clearTimeout(resting);
  resting = setTimeout(() => writeAddress(false), REST_MS);
}

/** Go where the reader wanted to go, and make it a place to come back to. */
function jumpTo(index) {
  if (index === null) return;
  if (resting) writeAddress(false); // back leads to the last step before the jump
  select(index);
  writeAddress(true);
}

/** The address was changed by back, forward, a link or by hand: go there. What a filter hides is shown again. */
function followAddress() {
  const index = linked();
  if (index === null || index === view.selected) return;
  clearTimeout(resting);
  resting = null;
  reveal(index);
  select(index, false);
}

function copyLink() {
  writeAddress(false);
  const told = (text) => {
    byId("copy").textContent = text;
    setTimeout(() => { byId("copy").textContent = "Copy link"; }, 1500);
  };
  if (!navigator.clipboard) return told("It is in the address bar");
  navigator.clipboard.writeText(location.href).then(() => told("Copied"), () => told("It is in the address bar"));
}
