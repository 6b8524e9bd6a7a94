// Charts as SVG with d3's scales and shapes, drawn from the same JSON that anybody can ask for.
(() => {
  const language = document.documentElement.lang;
  const number = new Intl.NumberFormat(language);
  // The zone that the viewer chose, else that of the browser.
  const timeZone = document.documentElement.getAttribute("time-zone") || undefined;
  const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone });
  const day = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", timeZone });
  const moment = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone });
  // How far the wall clock of that zone is from the browser's: ticks stand at its hours and midnights.
  const ahead = (x) => timeZone ? new Date(new Date(x).toLocaleString("sv", { timeZone })) - new Date(new Date(x).toLocaleString("sv")) : 0;
  const HOUR = 3600e3;
  const FIVE = ["locked", "failed", "done", "expired", "pending"];

  // ── what a chart shows: stacked bars, lines, bands of time, marks ──────────────────────────────

  const names = (element) => (element.dataset.names ?? "").split("|");
  const at = (row) => new Date(row.at).getTime();
  const over = (rows, field) => rows.map((row) => [at(row), row[field]]);
  // A value holds until it changes: its line ends now, not at its last change.
  const untilNow = (points) => points.length ? [...points, [Date.now(), points.at(-1)[1]]] : points;
  const several = (element, rows, fields, colours, more = {}) => fields.map((field, i) => ({ id: field, name: names(element)[i], colour: colours[i], points: over(rows, field), ...more }));

  const kinds = {
    // How jobs ended; on the pages of bots and hosts with a line: how busy a bot was, how often a host limited its rate.
    ended: (element, rows) => {
      const { line } = element.dataset, points = line ? over(rows, line).map(([x, n]) => [x, Math.round((n ?? 0) * 100) / 100]) : [];
      return {
        bars: several(element, rows, ["done", "failed", "expired"], ["done", "failed", "expired"]),
        lines: line ? [{ name: names(element)[3], colour: "locked", right: true, points }] : [],
        y: { whole: true }, right: line ? {} : undefined,
      };
    },
    // How jobs of a host ended, how often it limited its rate, and in bands when it was left alone for that.
    host: (element, { hours, cooling }) => {
      const chart = kinds.ended(element, hours), from = at(hours[0]) - HOUR / 2;
      const spans = cooling.map((period) => [Math.max(new Date(period.began_at).getTime(), from), new Date(period.until).getTime()]);
      // Hours are drawn around their beginning: what began in the second half of the last one would lie outside.
      const until = Math.min(Math.max(0, ...spans.map(([, end]) => end)), Date.now() + HOUR);
      return { ...chart, until, right: { whole: true }, bands: { name: names(element)[4], colour: "pending", spans: spans.filter(([begin, end]) => end > begin) } };
    },
    // Deliveries of a webhook, and how long its answers took.
    deliveries: (element, rows) => ({
      bars: several(element, rows, ["delivered", "failed"], ["done", "failed"]),
      lines: [{ name: names(element)[2], colour: "locked", right: true, dots: true, points: over(rows, "latency_ms").map(([x, ms]) => [x, ms === null ? null : Math.round(ms)]) }],
      y: { whole: true }, right: {},
    }),
    active: (element, rows) => {
      const lines = several(element, rows, ["pending", "locked", "due"], ["pending", "locked", "expired"], { bridge: true });
      lines[0].filled = true;
      return { lines, y: { whole: true } };
    },
    sentiment: (element, rows) => ({
      bars: several(element, rows, ["negative", "neutral", "positive"], ["failed", "pending", "done"]),
      lines: [{ name: names(element)[3], colour: "locked", right: true, dots: rows.length < 40, points: over(rows, "sentiment_score") }],
      y: { whole: true }, right: { domain: [-1, 1] },
    }),
    bars: (element, values) => ({ words: Object.keys(values), bars: [{ colour: "locked", points: Object.entries(values) }], y: { whole: true } }),
    value: (element, rows) => ({ lines: [{ name: element.dataset.name, colour: "locked", step: true, dots: true, filled: true, points: untilNow(rows.map((row) => [at(row), Number(row.value)])) }], y: { free: true } }),
    // Prices with what explains them: grey bands without stock, red marks where a crawl failed.
    price: (element, history) => {
      const [price, out, failed] = names(element);
      const points = untilNow(history.prices.map((row) => [at(row), Number(row.value)])), from = points[0]?.[0] ?? 0;
      const bands = history.stock.flatMap((row, i) => row.in_stock ? [] : [[Math.max(at(row), from), history.stock[i + 1] ? at(history.stock[i + 1]) : Date.now()]]);
      const marks = history.failures.filter((row) => at(row) >= from).map((row) => ({ x: at(row), text: row.code, job: row.job_id }));
      return { lines: [{ name: price, colour: "locked", step: true, dots: true, filled: true, points }], bands: { name: out, colour: "pending", spans: bands }, marks: { name: failed, colour: "failed", points: marks }, y: { free: true } };
    },
    // The brand and its largest competitors.
    voices: (element, rows) => {
      const actors = Map.groupBy(rows, (row) => `${row.role} ${row.name}`);
      return { legend: true, lines: [...actors.values()].map((points, i) => ({ name: points[0].name || "–", colour: FIVE[i], dots: true, points: over(points, "posts") })), y: { whole: true } };
    },
    compare: (element, rows) => {
      const products = new Map();
      for (const row of rows) (products.get(row.id) ?? products.set(row.id, { title: row.title, points: [] }).get(row.id)).points.push([at(row), Number(row.price)]);
      const since = ([x, n], first) => [x, Math.round((n / first - 1) * 1000) / 10];
      return { legend: true, lines: [...products.values()].map(({ title, points }, i) => ({ name: title, colour: FIVE[i], step: true, points: untilNow(points.map((point) => since(point, points[0][1]))) })), y: { free: true, unit: " %" } };
    },
    switch: (element, rows) => ({ lines: [{ colour: "done", step: true, filled: true, points: untilNow(rows.map((row) => [at(row), row.value ? 1 : 0])) }], y: { domain: [0, 1], words: names(element) } }),
  };

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────

  const svg = (name, attributes, parent) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent?.append(made);
    return made;
  };
  const write = (parent, x, y, text, more = {}) => { svg("text", { x, y, ...more }, parent).textContent = text; return parent.lastChild; };
  const box = (x, y, width, height) => `M${x} ${y}h${width}v${height}h${-width}z`;

  const legend = (root, items, width) => {
    let x = 4, y = 12;
    for (const { name, colour } of items) {
      const text = write(root, 0, 0, name.length > 48 ? `${name.slice(0, 47)}…` : name), length = text.getComputedTextLength() + 30;
      if (x > 4 && x + length > width) { x = 4; y += 18; }
      svg("rect", { x, y: y - 8, width: 12, height: 8, rx: 2, class: `fill-${colour}` }, root);
      text.setAttribute("x", x + 16); text.setAttribute("y", y);
      x += length;
    }
    return items.length ? y + 12 : 10;
  };

  const stack = (bars) => {
    const tops = new Map();
    return bars.map((series) => series.points.map(([x, n]) => { const low = tops.get(x) ?? 0; tops.set(x, low + (n ?? 0)); return [x, low, low + (n ?? 0)]; }));
  };

  const vertical = (axis, values, [bottom, top]) => {
    if (!values.length) values = [0, 1];
    let [low, high] = axis.domain ?? [Math.min(...values), Math.max(...values)];
    if (!axis.domain && !axis.free) low = Math.min(0, low);
    if (axis.free && !axis.domain) { const room = (high - low) * 0.05; low -= room; high += room; }
    if (!axis.domain && low === high) { high = high + (Math.abs(high) * 0.1 || 1); low = axis.free ? low - Math.abs(low) * 0.1 : low; }
    const scale = d3.scaleLinear([low, high], [bottom, top]);
    if (!axis.domain) scale.nice(4);
    const ticks = axis.words ? [0, 1] : scale.ticks(4).filter((n) => !axis.whole || Number.isInteger(n));
    return { scale, ticks, text: (n) => axis.words ? axis.words[n] : number.format(n) + (axis.unit ?? "") };
  };

  const timeText = (x, span) => {
    const date = new Date(x), wall = new Date(x + ahead(x)), midnight = wall.getHours() === 0 && wall.getMinutes() === 0;
    return span > 2 * 24 * HOUR || midnight ? day.format(date) : clock.format(date);
  };

  const paint = (element, chart) => {
    const { spec, zoom } = chart, width = element.clientWidth, height = element.clientHeight;
    if (!width || !height) return;
    const root = svg("svg", { width, height, "aria-hidden": "true" });
    chart.root?.remove();
    element.prepend(root);
    const bars = spec.bars ?? [], lines = spec.lines ?? [], named = element.dataset.names || spec.legend;
    const items = named ? [...bars, ...lines, ...[spec.bands, spec.marks].filter((one) => one && (one.spans ?? one.points).length)] : [];
    const top = legend(root, items.filter((one) => one.name), width), bottom = height - 20;
    const stacked = stack(bars);
    const xs = spec.words ? [] : [...bars, ...lines].flatMap((series) => series.points.map(([x]) => x));
    const step = bars.length && xs.length ? Number(element.dataset.step) * 1000 || gap(bars[0].points) : 0;
    const domain = zoom ?? [Math.min(...xs) - step / 2, Math.max(...xs, (spec.until ?? -Infinity) - step / 2) + step / 2];
    const inside = ([x]) => spec.words || !zoom || (x >= domain[0] - step && x <= domain[1] + step);
    // A line enters from the last point before what is shown.
    const shown = (points) => [...points.filter((point) => zoom && point[0] < domain[0]).slice(-1), ...points.filter(inside)];
    const seen = (right) => lines.filter((line) => Boolean(line.right) === right).flatMap((line) => shown(line.points).map(([, n]) => n)).filter((n) => n !== null);
    const left = vertical(spec.y, [...stacked.flat().filter(inside).map((bar) => bar[2]), ...seen(false)], [bottom, top]);
    const other = spec.right && vertical(spec.right, seen(true).length ? [0, ...seen(true)] : [0, 1], [bottom, top]);

    // Axes: labels take the room that they need.
    const measured = (axis) => axis ? Math.max(...axis.ticks.map((n) => { const text = write(root, 0, -99, axis.text(n)); const length = text.getComputedTextLength(); text.remove(); return length; }), 0) + 10 : 12;
    const from = measured(left), to = width - (other ? measured(other) : 14);
    for (const n of left.ticks) {
      svg("path", { d: `M${from} ${left.scale(n)}H${to}`, class: "grid" }, root);
      write(root, from - 6, left.scale(n) + 4, left.text(n), { "text-anchor": "end" });
    }
    for (const n of other?.ticks ?? []) write(root, to + 6, other.scale(n) + 4, other.text(n));
    const scale = spec.words ? d3.scaleBand(spec.words, [from, to]).padding(0.4) : d3.scaleTime(domain, [from, to]);
    if (spec.words) for (const word of spec.words) write(root, scale(word) + scale.bandwidth() / 2, bottom + 15, word, { "text-anchor": "middle", class: "word" });
    else {
      let free = -Infinity;
      const days = domain[1] - domain[0] > 2 * 24 * HOUR;
      const shift = ahead((domain[0] + domain[1]) / 2);
      for (const wall of d3.scaleTime(domain.map((x) => +x + shift), [from, to]).ticks(Math.max(2, Math.floor((to - from) / 80)))) {
        if (days && wall.getHours() !== 0) continue; // the same day twice
        const tick = new Date(wall - shift);
        const text = write(root, scale(tick), bottom + 15, timeText(tick.getTime(), domain[1] - domain[0]), { "text-anchor": "middle" }), half = text.getComputedTextLength() / 2;
        const x = Math.min(Math.max(scale(tick), from + half), to - half);
        text.setAttribute("x", x);
        if (x - half < free) text.remove(); else free = x + half + 8;
      }
    }

    const clip = `chart-clip-${chart.number}`;
    svg("path", { d: box(from, 0, to - from, bottom + 1) }, svg("clipPath", { id: clip }, svg("defs", {}, root)));
    const plot = svg("g", { "clip-path": `url(#${clip})` }, root);
    for (const [begin, end] of spec.bands?.spans ?? []) svg("path", { d: box(scale(begin), top, Math.max(3, scale(end) - scale(begin)), bottom - top), class: `fill-${spec.bands.colour} band` }, plot);
    const wide = spec.words ? Math.min(32, scale.bandwidth()) : Math.max(1.5, Math.min(18, (scale(domain[0] + step) - scale(domain[0])) * 0.8));
    bars.forEach((series, i) => stacked[i].forEach(([x, low, high]) => {
      if (high <= low) return;
      const middle = spec.words ? scale(x) + scale.bandwidth() / 2 : scale(x), y = left.scale(high);
      const bar = svg("path", { d: box(middle - wide / 2, y, wide, left.scale(low) - y), class: `fill-${series.colour}` }, plot);
      if (element.dataset.click && series.id) { bar.dataset.jump = openBar(element, series.id, x); bar.classList.add("opens"); }
    }));
    for (const line of lines) {
      const y = line.right ? other.scale : left.scale, points = line.bridge ? line.points.filter(([, n]) => n !== null) : line.points;
      const curve = line.step ? d3.curveStepAfter : d3.curveLinear, defined = ([, n]) => n !== null && n !== undefined;
      const floor = y(Math.max(y.domain()[0], Math.min(0, y.domain()[1])));
      if (line.filled) svg("path", { d: d3.area().defined(defined).curve(curve).x(([x]) => scale(x)).y0(floor).y1(([, n]) => y(n))(points) ?? "", class: `fill-${line.colour} area` }, plot);
      svg("path", { d: d3.line().defined(defined).curve(curve).x(([x]) => scale(x)).y(([, n]) => y(n))(points) ?? "", class: `line line-${line.colour}` }, plot);
      if (line.dots && points.length < 80) for (const [x, n] of points.filter(defined)) svg("circle", { cx: scale(x), cy: y(n), r: 2.5, class: `fill-${line.colour}` }, plot);
    }
    for (const mark of spec.marks?.points ?? []) {
      const x = scale(mark.x), shape = svg("path", { d: `M${x - 5} ${bottom}h10l-5 -9z`, class: `fill-${spec.marks.colour} opens` }, plot);
      shape.dataset.jump = `/jobs/${mark.job}`;
      svg("title", {}, shape).textContent = mark.text;
    }
    Object.assign(chart, { root, scale, domain, from, to, top, bottom, step, plot });
    element.dataset.drawn = "yes";
  };

  const gap = (points) => { let least = Infinity; for (let i = 1; i < points.length; i++) least = Math.min(least, points[i][0] - points[i - 1][0]); return Number.isFinite(least) ? least : HOUR; };
  // A bar opens the list of what it counts.
  const openBar = (element, id, x) => `${element.dataset.click}&status=${id}&since=${new Date(x).toISOString()}&until=${new Date(x + element.dataset.step * 1000).toISOString()}`;

  // ── pointing: the values at a time; drag to zoom, double-click to see all again ────────────────

  const values = (spec, x) => {
    const nearest = (points) => points.reduce((best, point) => best === null || Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best, null);
    const held = (points) => points.findLast((point) => point[0] <= x) ?? points[0] ?? null;
    const rows = [...(spec.bars ?? []), ...(spec.lines ?? [])].map((series) => ({ series, point: series.step ? held(series.points) : nearest(series.points) }));
    return rows.filter(({ point }) => point && point[1] !== null && point[1] !== undefined);
  };
  const tell = (element, chart, event) => {
    const frame = element.getBoundingClientRect(), x = event.clientX - frame.left;
    const tip = element.querySelector(".chart-tip") ?? element.appendChild(Object.assign(document.createElement("div"), { className: "chart-tip" }));
    const { spec, scale, from, to } = chart, isOutside = x < from || x > to;
    tip.hidden = isOutside;
    if (isOutside) return;
    const word = spec.words?.find((name) => x >= scale(name) - scale.step() * 0.2 && x < scale(name) + scale.step() * 0.8);
    const rows = spec.words ? (word ? [{ series: {}, point: spec.bars[0].points.find(([name]) => name === word) }] : []) : values(spec, scale.invert(x).getTime());
    tip.hidden = !rows.length;
    const head = word ?? (rows.length && moment.format(new Date(spec.lines?.some((line) => line.step) ? scale.invert(x) : rows[0].point[0])));
    const near = spec.words ? 0 : scale.invert(x).getTime(), close = spec.words ? 0 : scale.invert(x + 3).getTime() - near;
    const band = spec.bands?.spans.find(([begin, end]) => near >= begin - close && near <= end + close);
    if (band) rows.push({ series: spec.bands, span: band });
    tip.replaceChildren(Object.assign(document.createElement("b"), { textContent: head }), ...rows.map(({ series, point, span }) => {
      const row = document.createElement("div"), unit = series.right ? "" : spec.y.unit ?? "";
      row.textContent = span ? `${series.name}: ${span.map((end) => moment.format(end)).join(" – ")}` : `${series.name ? `${series.name}: ` : ""}${spec.y.words ? spec.y.words[point[1]] : number.format(point[1]) + unit}`;
      if (series.colour) row.className = `tip-${series.colour}`;
      return row;
    }));
    tip.style.left = `${Math.max(0, Math.min(x + 12, frame.width - tip.offsetWidth))}px`;
    tip.style.top = `${Math.max(0, chart.top)}px`;
  };
  const listen = (element, chart) => {
    let began = null, shade = null, dragged = false;
    element.addEventListener("pointermove", (event) => {
      tell(element, chart, event);
      if (began === null || chart.spec.words) return;
      const x = Math.min(Math.max(event.clientX - element.getBoundingClientRect().left, chart.from), chart.to);
      shade ??= svg("path", { class: "chosen" }, chart.root);
      shade.setAttribute("d", box(Math.min(began, x), chart.top, Math.abs(x - began), chart.bottom - chart.top));
      dragged = Math.abs(x - began) > 8;
      chart.wanted = [chart.scale.invert(Math.min(began, x)).getTime(), chart.scale.invert(Math.max(began, x)).getTime()];
    });
    element.addEventListener("pointerleave", () => { element.querySelector(".chart-tip")?.setAttribute("hidden", ""); });
    element.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType === "mouse") { began = event.clientX - element.getBoundingClientRect().left; dragged = false; } });
    document.addEventListener("pointerup", () => {
      if (began === null) return;
      began = null; shade?.remove(); shade = null;
      if (dragged && chart.wanted) { chart.zoom = chart.wanted; paint(element, chart); }
    });
    element.addEventListener("dblclick", () => { chart.zoom = null; paint(element, chart); });
    element.addEventListener("click", (event) => { if (!dragged && event.target.dataset.jump) location.href = event.target.dataset.jump; });
  };

  // ── when to draw ──────────────────────────────────────────────────────────────────────────────

  const charts = new WeakMap(), answers = new Map();
  let drawn = 0;
  const ask = (url) => {
    if (!answers.has(url)) answers.set(url, fetch(url).then((response) => response.json()).then((data) => data.items ?? data));
    return answers.get(url);
  };
  const draw = async (element) => {
    const data = element.dataset.values ? JSON.parse(element.dataset.values) : await ask(element.dataset.url);
    const isEmpty = Array.isArray(data) && data.length === 0 || data.prices?.length === 0;
    element.classList.toggle("chart-empty", isEmpty);
    if (isEmpty) return;
    if (!charts.has(element)) { charts.set(element, { number: ++drawn }); listen(element, charts.get(element)); }
    charts.get(element).spec = kinds[element.dataset.chart](element, data);
    paint(element, charts.get(element));
  };
  const drawAll = () => document.querySelectorAll("[data-chart]").forEach((element) => { watch.observe(element); draw(element); });
  const watch = new ResizeObserver((entries) => entries.forEach(({ target }) => { if (charts.get(target)?.spec) paint(target, charts.get(target)); }));
  drawAll();
  const again = () => { answers.clear(); document.querySelectorAll("[data-chart][data-url]").forEach(draw); };
  document.addEventListener("opilio:renew", again);
  // A page that was updated may have new charts, and new values for the old ones.
  document.addEventListener("opilio:updated", () => { answers.clear(); drawAll(); });
  // The newest minute, once a minute.
  setInterval(() => { if (!document.hidden) again(); }, 60000);
})();
