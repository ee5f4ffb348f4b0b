// What is wrong with how a page looks, as a list of texts. Runs inside the page; called by tests/look.py.
() => {
  const faults = new Set();
  const SLACK = 1.5;
  const round = (rect) => [rect.left, rect.top, rect.right, rect.bottom].map(Math.round).join(" ");
  const brief = (text) => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 50));
  const parse = (color) => {
    const [r, g, b, a = 1] = (color.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const contrast = (one, other) => {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };

  /** The color behind an element's text: all backgrounds up to the page, and the page. */
  const paperOf = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color[3]) layers.push(color);
      if (color[3] === 1) break;
    }
    const canvas = getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((below, top) => over(top, below), canvas);
  };
  const opacityOf = (element) => {
    let opacity = 1;
    for (let each = element; each; each = each.parentElement) opacity *= Number(getComputedStyle(each).opacity);
    return opacity;
  };

  /** The part of a rectangle that no ancestor cuts off; `cut` is true if an ancestor hides the rest for good. */
  const seen = (rect, element) => {
    let { left, top, right, bottom } = rect, cut = false;
    for (let each = element; each && each !== document.documentElement; each = each.parentElement) {
      const style = getComputedStyle(each);
      if (style.overflowX === "visible" || each === document.body) continue;
      const box = each.getBoundingClientRect();
      const isHidden = (value) => value === "hidden" || value === "clip";
      if (isHidden(style.overflowX) && (left < box.left - SLACK || right > box.right + SLACK)) cut = true;
      if (isHidden(style.overflowY) && (top < box.top - SLACK || bottom > box.bottom + SLACK)) cut = true;
      left = Math.max(left, box.left); right = Math.min(right, box.right);
      top = Math.max(top, box.top); bottom = Math.min(bottom, box.bottom);
      if (!isHidden(style.overflowX)) cut = false; // a reader can scroll there
    }
    return { left, top, right, bottom, cut };
  };
  const areOver = (one, other) =>
    Math.min(one.right, other.right) - Math.max(one.left, other.left) > 2 && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 3;
  const isScreenReaderOnly = (element) => element.closest("[data-look=unseen]") !== null;

  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) faults.add(`the page is ${width} px wide in a window of ${innerWidth} px`);

  // Texts of HTML: none is cut off, none covers another, all can be read.
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || element.closest("svg, script, style, template, noscript, option") || isScreenReaderOnly(element)) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const style = getComputedStyle(element);
    for (const rect of range.getClientRects()) {
      if (rect.width < 1 || rect.height < 1) continue;
      const part = seen(rect, element);
      if (part.cut) faults.add(`text is cut off: ${brief(node.data)}`);
      if (part.right - part.left < 1 || part.bottom - part.top < 1) continue;
      const isMoving = element.closest("pre, code, table, [tabindex]") || part.right < rect.right;
      if (!isMoving && (part.left < -SLACK || part.right > innerWidth + SLACK)) faults.add(`text leaves the window: ${brief(node.data)} ${round(rect)}`);
      boxes.push({ ...part, text: brief(node.data), element });
    }
    const disabled = element.closest("button:disabled, [aria-disabled=true]");
    if (disabled) continue; // WCAG 1.4.3 asks nothing of what cannot be used
    const paper = paperOf(element);
    const ink = parse(style.color);
    const ratio = contrast(over([...ink.slice(0, 3), ink[3] * opacityOf(element)], paper), paper);
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) faults.add(`contrast ${ratio.toFixed(2)}: ${brief(node.data)} ${style.color} on ${paper.slice(0, 3).map(Math.round)}`);
    if (size < 11) faults.add(`text of ${size} px: ${brief(node.data)}`);
  }
  boxes.forEach((one, place) => {
    for (const other of boxes.slice(place + 1)) {
      if (one.element !== other.element && areOver(one, other)) faults.add(`texts overlap: ${one.text} and ${other.text}`);
    }
  });

  // Texts of drawings: inside the drawing, beside each other, legible on what they stand on.
  for (const svg of document.querySelectorAll("svg")) {
    if (!svg.checkVisibility({ visibilityProperty: true }) || svg.closest("[aria-hidden=true], button, label, a")) continue;
    const frame = svg.getBoundingClientRect();
    if (!svg.querySelector("text")) continue;
    if (frame.width < 1 || frame.height < 1) faults.add("a drawing has no size");
    const texts = [...svg.querySelectorAll("text")].filter((each) => each.textContent.trim());
    const places = texts.map((each) => each.getBoundingClientRect());
    texts.forEach((text, place) => {
      const rect = places[place], name = brief(text.textContent);
      if (rect.left < frame.left - SLACK || rect.right > frame.right + SLACK || rect.top < frame.top - SLACK || rect.bottom > frame.bottom + SLACK) {
        faults.add(`a label leaves its drawing: ${name} ${round(rect)} of ${round(frame)}`);
      }
      for (let other = place + 1; other < texts.length; other++) {
        if (areOver(rect, places[other])) faults.add(`labels overlap: ${name} and ${brief(texts[other].textContent)}`);
      }
      const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b);
      if (size < 9.5) faults.add(`a label of ${size.toFixed(1)} px: ${name}`);
      let paper = paperOf(svg.parentElement);
      const middle = new DOMPoint((rect.left + rect.right) / 2, (rect.top + rect.bottom) / 2);
      for (const shape of svg.querySelectorAll("path, rect")) {
        if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING) || shape.closest("defs, clipPath")) continue;
        const style = getComputedStyle(shape);
        if (!style.fill.startsWith("rgb") || !shape.isPointInFill(middle.matrixTransform(shape.getScreenCTM().inverse()))) continue;
        const fill = parse(style.fill);
        paper = over([...fill.slice(0, 3), fill[3] * Number(style.fillOpacity) * Number(style.opacity)], paper);
      }
      const ratio = contrast(parse(getComputedStyle(text).fill), paper);
      if (ratio < 4.5) faults.add(`contrast ${ratio.toFixed(2)}: label ${name} ${getComputedStyle(text).fill} on ${paper.slice(0, 3).map(Math.round)}`);
    });
  }

  for (const canvas of document.querySelectorAll("canvas")) {
    const rect = canvas.getBoundingClientRect();
    if (rect.width < 20 || rect.height < 100) faults.add(`the picture #${canvas.id} has ${Math.round(rect.width)} x ${Math.round(rect.height)} px`);
    if (rect.width < 20 || rect.height < 100) continue;
    const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    const points = new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    if (points.every((each) => each === points[0])) faults.add(`the picture #${canvas.id} is empty`);
  }

  // WCAG 2.5.8: what is pressed is at least 24 px high and wide.
  for (const each of document.querySelectorAll("button, summary, label:has(input)")) {
    const rect = each.getBoundingClientRect();
    if (!each.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || isScreenReaderOnly(each) || rect.width === 0) continue;
    if (rect.height < 23.5 || rect.width < 23.5) faults.add(`a control of ${Math.round(rect.width)} x ${Math.round(rect.height)} px: ${brief(each.textContent)}`);
  }
  return [...faults];
}
