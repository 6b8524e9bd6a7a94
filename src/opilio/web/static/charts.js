// Charts as SVG, drawn from the same JSON that anybody can ask for.
(() => {
  const style = () => getComputedStyle(document.documentElement);
  const colour = (name) => style().getPropertyValue(name).trim();
  const base = (element) => ({
    aria: { enabled: true },
    animation: false,
    backgroundColor: "transparent",
    textStyle: { fontFamily: "inherit", color: colour("--chart-ink") },
    // Text, not HTML: titles and labels come from strangers, and the policy forbids inline style.
    tooltip: { trigger: "axis", renderMode: "richText", confine: true, backgroundColor: colour("--chart-tip"), textStyle: { color: colour("--chart-ink") } },
    grid: { left: 8, right: 16, top: element.dataset.names ? 32 : 12, bottom: 4, containLabel: true },
    legend: element.dataset.names ? { top: 0, textStyle: { color: colour("--chart-ink") }, itemWidth: 12, itemHeight: 8 } : undefined,
  });
  const format = new Intl.NumberFormat(document.documentElement.lang);
  const times = { year: "{yyyy}", month: "{d} {MMM}", day: "{d} {MMM}", hour: "{HH}:{mm}", minute: "{HH}:{mm}", second: "{HH}:{mm}:{ss}", none: "{HH}:{mm}" };
  const axis = (type, more = {}) => ({
    type,
    axisLabel: { color: colour("--chart-ink"), hideOverlap: true, ...(type === "value" ? { formatter: (n) => format.format(n) } : {}), ...(type === "time" ? { formatter: times, alignMinLabel: "left", alignMaxLabel: "right", rich: { primary: { fontWeight: "normal" } } } : {}) },
    axisLine: { lineStyle: { color: colour("--chart-line") } },
    splitLine: { lineStyle: { color: colour("--chart-line") } },
    ...more,
  });
  const names = (element) => (element.dataset.names ?? "").split("|");
  // A value holds until it changes: its line ends now, not at its last change.
  const untilNow = (points) => points.length ? [...points, [new Date().toISOString(), points.at(-1)[1]]] : points;
  const over = (rows, field) => rows.map((row) => [row.at, row[field]]);

  const kinds = {
    ended: (element, rows) => ({
      color: ["--chart-done", "--chart-failed", "--chart-expired"].map(colour),
      xAxis: axis("time"), yAxis: axis("value", { minInterval: 1 }),
      series: ["done", "failed", "expired"].map((field, i) => ({ name: names(element)[i], id: field, type: "bar", stack: "all", barMaxWidth: 14, data: over(rows, field) })),
      dataZoom: [{ type: "inside" }],
    }),
    // Deliveries of a webhook, and how long its answers took.
    deliveries: (element, rows) => ({
      color: ["--chart-done", "--chart-failed", "--chart-locked"].map(colour),
      grid: { left: 8, right: 8, top: 32, bottom: 4, containLabel: true },
      xAxis: axis("time"), yAxis: [axis("value", { minInterval: 1 }), axis("value", { splitLine: { show: false } })],
      series: [
        ...["delivered", "failed"].map((field, i) => ({ name: names(element)[i], type: "bar", stack: "all", barMaxWidth: 18, data: over(rows, field) })),
        { name: names(element)[2], type: "line", yAxisIndex: 1, symbolSize: 5, connectNulls: false, data: rows.map((row) => [row.at, row.latency_ms === null ? null : Math.round(row.latency_ms)]) },
      ],
    }),
    active: (element, rows) => ({
      color: ["--chart-pending", "--chart-locked", "--chart-expired"].map(colour),
      xAxis: axis("time"), yAxis: axis("value", { minInterval: 1 }),
      series: ["pending", "locked", "due"].map((field, i) => ({ name: names(element)[i], type: "line", showSymbol: false, connectNulls: true, areaStyle: i ? undefined : { opacity: 0.15 }, data: over(rows, field) })),
    }),
    sentiment: (element, rows) => ({
      color: ["--chart-failed", "--chart-pending", "--chart-done", "--chart-locked"].map(colour),
      grid: { left: 8, right: 8, top: 32, bottom: 4, containLabel: true },
      xAxis: axis("time"),
      yAxis: [axis("value", { minInterval: 1 }), axis("value", { min: -1, max: 1, interval: 0.5, splitLine: { show: false } })],
      dataZoom: rows.length > 120 ? [{ type: "inside" }] : [],
      series: [
        ...["negative", "neutral", "positive"].map((field, i) => ({ name: names(element)[i], type: "bar", stack: "all", barMaxWidth: 18, data: over(rows, field) })),
        { name: names(element)[3], type: "line", yAxisIndex: 1, showSymbol: rows.length < 40, symbolSize: 5, data: over(rows, "sentiment_score") },
      ],
    }),
    bars: (element, values) => ({
      color: [colour("--chart-locked")],
      xAxis: axis("category", { data: Object.keys(values), axisLabel: { color: colour("--chart-ink"), interval: 0, fontSize: 11 } }), yAxis: axis("value", { minInterval: 1 }),
      series: [{ type: "bar", barMaxWidth: 32, data: Object.values(values) }],
    }),
    value: (element, rows) => ({
      color: [colour("--chart-locked")],
      xAxis: axis("time"), yAxis: axis("value", { scale: true }),
      dataZoom: rows.length > 60 ? [{ type: "inside" }] : [],
      series: [{ name: element.dataset.name, type: "line", step: "end", symbolSize: 6, areaStyle: { opacity: 0.08 }, data: untilNow(rows.map((row) => [row.at, Number(row.value)])) }],
    }),
    // Prices with what explains them: grey bands without stock, red marks where a crawl failed.
    price: (element, history) => {
      const points = untilNow(history.prices.map((row) => [row.at, Number(row.value)]));
      const [price, out, failed] = names(element), from = points[0]?.[0] ?? "";
      const bands = [];
      for (const [i, row] of history.stock.entries()) {
        if (!row.in_stock) bands.push([{ xAxis: row.at < from ? from : row.at }, { xAxis: history.stock[i + 1]?.at ?? new Date().toISOString() }]);
      }
      const low = Math.min(...points.map((point) => point[1]));
      return {
        color: ["--chart-locked", "--chart-pending", "--chart-failed"].map(colour),
        xAxis: axis("time"), yAxis: axis("value", { scale: true }),
        dataZoom: [{ type: "inside" }],
        series: [
          { name: price, type: "line", step: "end", symbolSize: 5, lineStyle: { width: 2 }, areaStyle: { opacity: 0.08 }, data: points },
          { name: out, type: "line", data: [], markArea: { silent: true, itemStyle: { color: colour("--chart-pending"), opacity: 0.18 }, data: bands } },
          { name: failed, type: "scatter", symbol: "triangle", symbolSize: 9, data: history.failures.filter((row) => row.at >= from).map((row) => ({ value: [row.at, low], name: row.code, job: row.job_id })) },
        ],
      };
    },
    compare: (element, rows) => {
      const products = new Map();
      for (const row of rows) (products.get(row.id) ?? products.set(row.id, { title: row.title, points: [] }).get(row.id)).points.push([row.at, Number(row.price)]);
      return {
        color: ["--chart-locked", "--chart-failed", "--chart-done", "--chart-expired", "--chart-pending"].map(colour),
        legend: { top: 0, textStyle: { color: colour("--chart-ink") }, itemWidth: 12, itemHeight: 8 },
        grid: { left: 8, right: 12, top: 48, bottom: 4, containLabel: true },
        xAxis: axis("time"), yAxis: axis("value", { scale: true, axisLabel: { color: colour("--chart-ink"), formatter: (n) => `${format.format(n)} %` } }),
        dataZoom: [{ type: "inside" }],
        series: [...products.values()].map((product) => ({ name: product.title, type: "line", step: "end", showSymbol: false, data: untilNow(product.points.map(([at, n]) => [at, Math.round((n / product.points[0][1] - 1) * 1000) / 10])) })),
      };
    },
    switch: (element, rows) => ({
      color: [colour("--chart-done")],
      xAxis: axis("time"), yAxis: axis("value", { max: 1, interval: 1, axisLabel: { color: colour("--chart-ink"), formatter: (n) => names(element)[n] } }),
      series: [{ type: "line", step: "end", areaStyle: { opacity: 0.15 }, showSymbol: false, data: untilNow(rows.map((row) => [row.at, row.value ? 1 : 0])) }],
      legend: undefined,
    }),
  };

  const answers = new Map();
  const ask = (url) => {
    if (!answers.has(url)) answers.set(url, fetch(url).then((response) => response.json()).then((data) => data.items ?? data));
    return answers.get(url);
  };
  const draw = async (element) => {
    const data = element.dataset.values ? JSON.parse(element.dataset.values) : await ask(element.dataset.url);
    if (Array.isArray(data) && data.length === 0 || data.prices?.length === 0) { element.classList.add("chart-empty"); return; }
    const chart = echarts.getInstanceByDom(element) ?? echarts.init(element, null, { renderer: "svg" });
    chart.setOption({ ...base(element), ...kinds[element.dataset.chart](element, data) }, true);
    element.dataset.drawn = "yes";
    if (!element.dataset.clickable) {
      element.dataset.clickable = "yes";
      chart.on("click", (point) => {
        if (point.data?.job) location.href = `/jobs/${point.data.job}`;
        // A bar opens the list of what it counts.
        else if (element.dataset.click && point.seriesId) {
          const from = new Date(point.data[0]), until = new Date(from.getTime() + element.dataset.step * 1000);
          location.href = `${element.dataset.click}&status=${point.seriesId}&since=${from.toISOString()}&until=${until.toISOString()}`;
        }
      });
    }
  };
  const drawAll = () => document.querySelectorAll("[data-chart]").forEach((element) => { watch.observe(element); draw(element); });

  const watch = new ResizeObserver((entries) => entries.forEach((entry) => echarts.getInstanceByDom(entry.target)?.resize()));
  document.addEventListener("opilio:theme", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
  const again = () => { answers.clear(); document.querySelectorAll("[data-chart][data-url]").forEach(draw); };
  document.addEventListener("opilio:renew", again);
  // A page that was updated may have new charts, and new values for the old ones.
  document.addEventListener("opilio:updated", () => { answers.clear(); drawAll(); });
  // The newest minute, once a minute.
  setInterval(() => { if (!document.hidden) again(); }, 60000);
})();
