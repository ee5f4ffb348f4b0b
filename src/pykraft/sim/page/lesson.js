// The lesson of the page, if it has one: events of the run in their order, with a sentence for each.
//
// The step of the reader is the last one that is not behind the selected event, whichever way the reader came there.

function tellLesson() {
  byId("lesson").hidden = !run.lesson;
  if (!run.lesson) return;
  byId("lesson-title").textContent = run.lesson.title;
  byId("lesson-about").textContent = run.lesson.about;
  run.lesson.links.forEach(([text, href], place) => {
    byId("lesson-links").append(place ? ", " : "", element("a", text, { href, rel: "noreferrer" }));
  });
}

function tellStep() {
  if (!run.lesson) return;
  const { steps } = run.lesson, events = steps.map((step) => step.event);
  const place = lastNotAbove(events, view.selected);
  byId("lesson-place").textContent = `${Math.max(0, place + 1)} of ${steps.length}`;
  byId("lesson-text").textContent = place < 0 ? "The first step is still to come." : steps[place].text;
  byId("previous-lesson").disabled = view.selected <= events[0];
  byId("next-lesson").disabled = view.selected >= events.at(-1);
}

function leapToStep(direction) {
  const events = run.lesson ? run.lesson.steps.map((step) => step.event) : [];
  const found = direction > 0 ? events.find((event) => event > view.selected) : events.findLast((event) => event < view.selected);
  if (found === undefined) return;
  reveal(found);
  jumpTo(found);
}
