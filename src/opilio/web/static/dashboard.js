// What the server cannot do: clocks that count, the live marker, dialogs, keys. Pages work without it.
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const remember = (cookie) => {
    document.cookie = `${cookie}; path=/; max-age=31536000; samesite=lax`;
  };

  // The zone that the viewer chose, else that of the browser.
  const timeZone = document.documentElement.getAttribute("time-zone") || undefined;

  // ── clocks ────────────────────────────────────────────────────────────────────────────────────
  const pad = (n) => String(n).padStart(2, "0");
  const left = (seconds) => {
    const d = Math.floor(seconds / 86400), h = Math.floor(seconds / 3600) % 24, m = Math.floor(seconds / 60) % 60, s = seconds % 60;
    if (d) return `${d} d ${h} h`;
    return h ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
  };
  const count = () => {
    for (const clock of $$("[data-countdown]")) {
      const seconds = Math.ceil((new Date(clock.dateTime) - Date.now()) / 1000);
      clock.textContent = seconds > 0 ? left(seconds) : clock.dataset.over;
      clock.classList.toggle("over", seconds <= 0);
      if (!clock.title) clock.title = new Date(clock.dateTime).toLocaleString(document.documentElement.lang, { timeZone });
    }
    for (const clock of $$("[data-elapsed]")) {
      clock.textContent = left(Math.max(0, Math.floor((Date.now() - new Date(clock.dateTime)) / 1000)));
    }
  };
  count();
  setInterval(count, 1000);
  for (const place of $$("[data-zone]")) place.textContent = place.dataset.zone.replace("{}", Intl.DateTimeFormat().resolvedOptions().timeZone);

  // ── the live marker: it never says more than it knows ─────────────────────────────────────────
  const marker = $("#live-marker"), stream = $("#live"), down = $("#down");
  let heard = Date.now();
  const show = (state, more = "") => {
    if (!marker || marker.dataset.state === state && !more) return;
    marker.dataset.state = state;
    $("span", marker).textContent = marker.dataset[state] + more;
  };
  // What else is down, and why; a screen reader is told once, not at every tick.
  const absent = $("#away");
  const missing = (faults) => {
    const names = Object.fromEntries(absent.dataset.names.split("|").map((pair) => pair.split(":")));
    const keys = Object.keys(faults);
    const text = keys.map((key) => `${absent.dataset[key]} (${faults[key]})`).join("\n");
    if (absent.textContent !== text) absent.textContent = text;
    absent.hidden = keys.length === 0;
    if (keys.length) show("away", ` ${keys.map((key) => names[key]).join(", ")}`);
    else show("live");
  };
  if (stream) {
    stream.addEventListener("tick", (event) => {
      heard = Date.now();
      down.hidden = true;
      const figures = JSON.parse(event.detail.data);
      missing(figures.away);
      followTick();
      const format = new Intl.NumberFormat(document.documentElement.lang);
      for (const place of $$("[data-figure]")) place.textContent = format.format(figures[place.dataset.figure]);
    });
    stream.addEventListener("down", (event) => {
      heard = Date.now();
      $("span", down).textContent = event.detail.data;
      down.hidden = false;
      show("down");
    });
    stream.addEventListener("htmx:sse:error", (event) => show(event.detail.status === 401 ? "out" : "connecting"));
    stream.addEventListener("changed", refresh);
    setInterval(() => {
      const silent = Math.round((Date.now() - heard) / 1000);
      if (document.hidden) show("paused");
      else if (silent > 8 && marker.dataset.state !== "out") show("stale", ` ${silent} s`);
      // Old figures must not look like new ones.
      $("#main").classList.toggle("outage", silent > 15 && !document.hidden);
    }, 1000);
    document.addEventListener("visibilitychange", () => { heard = Date.now(); if (!document.hidden) show("connecting"); });
  }

  // What reads much is asked for again at most four times a minute, and the last change is not missed.
  let counted = 0, waiting = null;
  function recount() {
    if (waiting) return;
    waiting = setTimeout(() => {
      waiting = null;
      counted = Date.now();
      for (const part of $$("[data-renew]")) htmx.trigger(part, "renew");
      document.dispatchEvent(new Event("opilio:renew"));
    }, Math.max(0, counted + 15000 - Date.now()));
  }

  // A list whose rows nobody watches one by one is asked for again now and then, unless somebody reads an open row.
  let followed = Date.now();
  function followTick() {
    const list = $("[data-refresh-on-tick]");
    if (!list || Date.now() - followed < 5000 || document.hidden || $("details[open]", list)) return;
    followed = Date.now();
    refresh();
  }

  // Something on the screen changed. A page that somebody is working on waits for a click.
  function refresh() {
    recount();
    const target = $("[data-refresh]");
    if (target && !waitsForClick(target)) reload(target, false);
  }
  function waitsForClick(target) {
    const busy = $$("input[data-row]:checked").length || $("dialog[open]") || $(".dropdown-menu.show") || target.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
    const pill = $("#refresh-pill");
    if (busy && pill) pill.hidden = false;
    return Boolean(busy && pill);
  }
  // One request for all parts; changes that arrive meanwhile cause one more.
  let loading = false, next = null;
  async function reload(target, clicked) {
    if (loading) { next = { clicked: clicked || Boolean(next?.clicked) }; return; }
    loading = true;
    try {
      const response = await fetch(location.href, { headers: { "HX-Request": "true" } });
      if (response.status === 401 || response.redirected) { location.reload(); return; }
      if (!response.ok) return;
      const text = await response.text();
      if (!clicked && waitsForClick(target)) return;  // somebody began to work on it meanwhile
      const restore = currentRow();
      // The heading of a detail page shows the state and the actions that are possible in it.
      for (const id of target.id === "detail" ? ["heading", "detail"] : [target.id]) {
        await htmx.swap({ sourceElement: document.body, text, target: `#${id}`, select: `#${id}`, swap: "outerMorph", request: {}, response: {} });
      }
      restore();
      const pill = $("#refresh-pill");
      if (pill) pill.hidden = true;
      announce(target.dataset.refresh);
      document.dispatchEvent(new Event("opilio:updated"));
    } finally {
      loading = false;
      if (next) { const { clicked } = next; next = null; reload($("[data-refresh]"), clicked); }
    }
  }
  // The row that the keys have reached stays current, wherever it is in the new list.
  function currentRow() {
    const row = $("tr.current"), href = row?.dataset.href, focused = row?.contains(document.activeElement);
    return () => {
      for (const each of $$("tr[data-href]")) each.classList.toggle("current", each.dataset.href === href);
      if (focused) $("tr.current a")?.focus({ preventScroll: true });
    };
  }
  // Screen readers hear about live changes at most every 20 seconds.
  let announced = 0;
  function announce(text) {
    if (!text || Date.now() - announced < 20000) return;
    announced = Date.now();
    $("#announcer").textContent = text;
  }

  // ── fields that only some choices need: without scripts all are shown ─────────────────────────
  const needed = () => {
    for (const part of $$("[data-shown-for]")) {
      const [name, values] = part.dataset.shownFor.split(":");
      part.hidden = !values.split(" ").includes(part.closest("form").elements[name].value);
    }
  };
  needed();

  // ── a small text file is shown in the form, where its rows can be corrected ────────────────────
  document.addEventListener("change", async (event) => {
    const input = event.target, file = input.matches("[data-file-into]") && input.files[0];
    if (!file || file.size > 300000 || /\.(xml|gz)$/i.test(file.name)) return;
    try {
      $(input.dataset.fileInto).value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      input.value = "";
    } catch { /* not UTF-8: the server says so */ }
  });

  // ── ticked rows ───────────────────────────────────────────────────────────────────────────────
  const ticked = () => {
    const rows = $$("input[data-row]:checked"), states = new Set(rows.map((row) => row.dataset.state));
    // An action is offered if at least one selected row is in a state that it is for.
    for (const button of $$("[data-for]")) button.hidden = !button.dataset.for.split(" ").some((state) => states.has(state));
    for (const place of $$("[data-ticked]")) place.textContent = rows.length;
    for (const part of $$("[data-when-ticked]")) part.hidden = rows.length === 0;
  };
  // Shift-click selects the rows between; the last click without Shift is where it begins.
  let anchor = null;
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-untick]")) { for (const box of $$("input[data-row], [data-all]")) box.checked = false; ticked(); }
    if (!event.target.matches("input[data-row]")) return;
    const rows = $$("input[data-row]"), at = rows.indexOf(event.target), from = rows.indexOf(anchor);
    if (event.shiftKey && from >= 0) for (const box of rows.slice(Math.min(at, from), Math.max(at, from) + 1)) box.checked = event.target.checked;
    anchor = event.target;
    ticked();
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) for (const box of $$("input[data-row]")) box.checked = event.target.checked;
    if (event.target.matches("[data-all], [data-row]")) ticked();
    if (event.target.matches("[data-shows]")) needed();
    if (event.target.matches("[data-cookie-value]")) { remember(`${event.target.dataset.cookieValue}=${event.target.value}`); location.reload(); }
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });
  document.addEventListener("htmx:after:swap", () => { count(); ticked(); });

  // ── dialogs ───────────────────────────────────────────────────────────────────────────────────
  const open = (name) => {
    const dialog = document.getElementById(name);
    if (!dialog || dialog.open) return;
    dialog.showModal();
    const input = $("input", dialog);
    if (input) { input.select(); htmx.trigger(input, "open"); }
  };
  let asked = null;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-open], [data-close], [data-cookie], [data-copy], [data-reload], [data-print], #confirm-yes");
    if (event.target.matches("dialog")) event.target.close();
    if (!button) return;
    if (button.dataset.open) open(button.dataset.open);
    if ("close" in button.dataset) button.closest("dialog").close();
    if (button.dataset.cookie) { remember(button.dataset.cookie); location.reload(); }
    if (button.dataset.copy) navigator.clipboard.writeText($(button.dataset.copy).textContent).then(() => button.classList.add("copied"));
    if ("print" in button.dataset) window.print();
    if ("reload" in button.dataset) reload($("[data-refresh]"), true);
    if (button.id === "confirm-yes" && asked) { asked.dataset.confirmed = "1"; $("#confirm").close(); asked.requestSubmit(); }
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.confirm || form.dataset.confirmed) return;
    event.preventDefault();
    asked = form;
    $("#confirm-text").textContent = form.dataset.confirm;
    $("#confirm-yes").textContent = form.dataset.confirmButton ?? $("#confirm-yes").dataset.usual;
    $("#confirm").showModal();
  });
  $("#palette")?.addEventListener("keydown", (event) => {
    const links = $$("#palette-results a, #palette-results button"), at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)]?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? links[at - 1] : $("#palette input")).focus();
    else if (event.key === "Enter" && at < 0) links[0]?.click();
    else return;
    event.preventDefault();
  });

  // ── rows by key ───────────────────────────────────────────────────────────────────────────────
  function step(by) {
    const rows = $$("tr[data-href]"), at = rows.findIndex((row) => row.classList.contains("current"));
    const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
    if (!next) return;
    rows[at]?.classList.remove("current");
    next.classList.add("current");
    next.scrollIntoView({ block: "nearest" });
    $("a", next)?.focus({ preventScroll: true });
  }

  // ── keys ──────────────────────────────────────────────────────────────────────────────────────
  const typing = (event) => event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable], dialog");
  const key = (action) => (event) => { if (!typing(event)) { event.preventDefault(); action(); } };
  const keys = {
    "$mod+k": (event) => { event.preventDefault(); open("palette"); },
    "/": key(() => ($("[data-search]") ?? { focus: () => open("palette") }).focus()),
    "Shift+?": key(() => open("keys")),
    "j": key(() => step(1)),
    "k": key(() => step(-1)),
    "x": key(() => { const box = $("tr.current input[data-row]"); if (box) { box.checked = !box.checked; ticked(); } }),
    "Enter": (event) => { const row = $("tr.current"); if (row && !event.target.closest("a, button, input, select, textarea, dialog, summary")) location.href = row.dataset.href; },
    "n": key(() => { location.href = `${$("a[href$='/policies']")?.getAttribute("href") ?? "/policies"}/new`; }),
    "t": key(() => {
      const next = document.documentElement.dataset.bsTheme === "dark" ? "light" : "dark";
      remember(`opilio_theme=${next}`);
      document.documentElement.dataset.bsTheme = document.documentElement.dataset.theme = next;
      document.dispatchEvent(new Event("opilio:theme"));
    }),
  };
  for (const link of $$("a[data-key]")) keys[`g ${link.dataset.key}`] = key(() => link.click());
  tinykeys.tinykeys(window, keys);
})();
