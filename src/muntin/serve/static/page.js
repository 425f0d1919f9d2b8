"use strict";
// Shows what queries tell. Everything comes as server-sent events: a snapshot first, then batches.
(() => {
  const $ = (id) => document.getElementById(id);
  const KEEP = { batches: 600, windows: 500, samples: 50, notes: 100 };
  const OWN = new Set(["window_start", "window_end", "emission", "revision"]);
  const queries = new Map();
  let chosen = null;
  let plots = [];
  let valuesPlot = null;
  let drawn = 0;

  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
  const said = (value) =>
    value === null || value === undefined ? "none" :
    typeof value === "number" ? number.format(value) : String(value);
  const moment = (ms) => new Date(ms).toISOString().replace("T", " ").replace(/\.?0*Z$/, "");
  const cell = (name, value, tag = "td") => {
    const made = document.createElement(tag);
    made.textContent = OWN.has(name) && name.startsWith("window_") && typeof value === "number" && value > 1e11
      ? moment(value) : value === null ? "" : said(value);
    return made;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLOURS = ["--accent", "--full", "--late", "--early", "--retract"];

  function keep(list, news, most) {
    list.push(...news);
    if (list.length > most) list.splice(0, list.length - most);
  }

  function choose(name) {
    chosen = name;
    for (const plot of plots) plot.plot.destroy();
    plots = [];
    if (valuesPlot) { valuesPlot.destroy(); valuesPlot = null; }
    tabs();
    const query = queries.get(name);
    $("main").hidden = !query;
    if (!query) return;
    $("about-title").textContent = query.name;
    $("about").textContent = query.about;
    $("charts").replaceChildren(...query.charts.map(chart));
    $("windows-part").hidden = query.columns.length === 0;
    $("held-part").hidden = !query.looks;
    if (held.query !== name) shown({ query: name, said: "", rows: [] });
    const values = query.columns.filter((c) => !OWN.has(c) && !query.keys.includes(c));
    $("value").replaceChildren(...values.map((c) => new Option(c, c)));
    $("windows-head").replaceChildren(row(query.columns.map((c) => cell(c, c, "th"))));
    draw();
  }

  // What was found when somebody last looked into the state.
  let held = { query: null };
  function shown(found) {
    held = found;
    const names = [...new Set(found.rows.flatMap(Object.keys))];
    $("held-said").textContent = found.said;
    $("held-head").replaceChildren(row(names.map((c) => cell(c, c, "th"))));
    $("held").replaceChildren(...found.rows.map((r) => row(names.map((c) => cell(c, r[c] ?? null)))));
  }

  async function look() {
    const query = queries.get(chosen), text = $("held-key").value.trim();
    if (!query) return;
    const key = text === "" ? [] : query.keys.length > 1 ? text.split(",").map((part) => part.trim()) : [text];
    shown({ query: query.name, said: "Looking …", rows: [] });
    const asked = new URLSearchParams([["query", query.name], ...key.map((part) => ["key", part])]);
    try {
      const found = await (await fetch(`/held?${asked}`, { headers: { "X-Muntin": "look" } })).json();
      if (chosen !== query.name) return;
      const size = (found.buckets ?? []).reduce((sum, bucket) => sum + bucket.bytes, 0);
      const said = found.error ?? (found.key && !found.key.length ? `Nothing is kept of ${text}.`
        : `Batch ${found.batch}: ${said_of(found)}${number.format(size / 1e6)} MB in ${found.buckets.length} bucket${found.buckets.length === 1 ? "" : "s"}.`);
      shown({ query: query.name, said, rows: found.error ? [] : found.key ?? found.tables });
    } catch {
      shown({ query: query.name, said: "The query doesn't answer.", rows: [] });
    }
  }
  const said_of = (found) => found.spec?.windows ? `${found.spec.windows}; ` : "";

  function row(cells) {
    const made = document.createElement("tr");
    made.append(...cells);
    return made;
  }

  function tabs() {
    $("queries").replaceChildren(...[...queries.keys()].map((name) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.setAttribute("aria-pressed", String(name === chosen));
      button.addEventListener("click", () => choose(name));
      return button;
    }));
  }

  function axes() {
    const ink = css("--soft"), line = css("--line");
    return [
      { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } },
      { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, size: 64,
        values: (_, ticks) => ticks.map((t) => new Intl.NumberFormat("en", { notation: "compact" }).format(t)) },
    ];
  }

  function plotted(place, names, height) {
    const series = names.map((label, i) => ({ label, stroke: css(COLOURS[i % COLOURS.length]), width: 2, spanGaps: true }));
    return new uPlot(
      { width: Math.max(240, place.clientWidth - 16), height, series: [{}, ...series], axes: axes(),
        cursor: { drag: { x: true, y: false } } },
      [[], ...names.map(() => [])], place);
  }

  function chart(given) {
    const place = document.createElement("div");
    place.className = "chart";
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", `${given.title} over time, in ${given.unit}`);
    const title = document.createElement("h3");
    title.append(given.title, " ");
    const unit = document.createElement("span");
    unit.textContent = given.unit;
    title.append(unit);
    place.append(title);
    requestAnimationFrame(() => {
      if (!place.isConnected) return;
      plots.push({ given, plot: plotted(place, given.series, 180), place });
      draw();
    });
    return place;
  }

  function draw() {
    const query = queries.get(chosen);
    if (!query) return;
    drawn += 1;
    const last = query.batches.at(-1);
    const numbers = last ? last.numbers : {};
    $("tiles").replaceChildren(...query.tiles.map((tile) => {
      const made = document.createElement("div");
      const label = document.createElement("dt"), value = document.createElement("dd");
      label.textContent = tile.label;
      const known = numbers[tile.number];
      value.textContent = tile.unit === "time"
        ? (known === null || known === undefined ? "none" : moment(known))
        : said(known) + (tile.unit && known !== null && known !== undefined ? ` ${tile.unit}` : "");
      made.append(label, value);
      return made;
    }));
    const times = query.batches.map((b) => b.at / 1000);
    for (const { given, plot } of plots)
      plot.setData([times, ...given.series.map((s) => query.batches.map((b) => b.numbers[s] ?? null))]);
    windows(query);
    rejected(query);
    phases(last);
    $("notes-part").hidden = query.notes.length === 0;
    $("notes").replaceChildren(...query.notes.slice(-30).reverse().map((note) => {
      const made = document.createElement("li");
      made.textContent = `${moment(note.at).slice(11, 19)} ${note.text}`;
      return made;
    }));
    status(query);
    document.body.dataset.drawn = String(drawn);
  }

  function matching(query) {
    const wanted = $("key").value.trim().toLowerCase();
    if (!wanted) return query.windows;
    return query.windows.filter((w) => query.keys.map((k) => String(w[k])).join(" ").toLowerCase().includes(wanted));
  }

  function windows(query) {
    if (query.columns.length === 0) return;
    const found = matching(query);
    $("windows").replaceChildren(...found.slice(-100).reverse().map((w) => row(query.columns.map((c) => {
      const made = cell(c, w[c] ?? null);
      if (c === "emission") made.className = w[c];
      return made;
    }))));
    const value = $("value").value;
    const newest = new Map();
    for (const w of found)
      if (typeof w.window_start === "number" && typeof w[value] === "number" && w.emission !== "retract")
        newest.set(w.window_start, w[value]);
    const points = [...newest].sort((a, b) => a[0] - b[0]);
    $("windows-chart").hidden = points.length < 2;
    if (points.length < 2) return;
    valuesPlot ??= plotted($("windows-chart"), [value], 200);
    valuesPlot.setData([points.map((p) => p[0] / 1000), points.map((p) => p[1])]);
  }

  function rejected(query) {
    const reasons = Object.entries(query.rejected).filter(([, n]) => n);
    $("reasons").replaceChildren(...(reasons.length ? reasons : [["nothing", null]]).map(([reason, n]) => {
      const made = document.createElement("li");
      made.textContent = n === null ? reason : `${said(n)} ${reason}`;
      return made;
    }));
    const names = [...new Set(query.samples.flatMap(Object.keys))];
    $("samples-head").replaceChildren(row(names.map((c) => cell(c, c, "th"))));
    $("samples").replaceChildren(...query.samples.slice(-20).reverse().map((s) => row(names.map((c) => cell(c, s[c] ?? null)))));
  }

  function phases(last) {
    const found = Object.entries(last ? last.phases : {});
    $("phases-part").hidden = found.length === 0;
    const top = Math.max(1, ...found.map(([, ms]) => ms));
    $("phases").replaceChildren(...found.map(([name, ms]) => {
      const made = document.createElement("div");
      const label = document.createElement("dt"), value = document.createElement("dd");
      const bar = document.createElement("meter");
      bar.max = top; bar.value = ms; bar.setAttribute("aria-label", name);
      label.textContent = name;
      value.textContent = `${said(ms)} ms`;
      made.append(label, bar, value);
      return made;
    }));
  }

  function status(query) {
    const failed = query.state === "failed";
    $("failure").hidden = !failed;
    $("failure").textContent = failed ? `${query.name} failed: ${query.failure}` : "";
    const last = query.batches.at(-1);
    const text = query.state === "running"
      ? (last ? "Live" : "Waiting for the first batch …") : failed ? "Failed" : "Ended";
    if ($("status").textContent !== text) $("status").textContent = text;
    $("status").dataset.state = query.state === "running" ? "live" : query.state;
  }

  const told = (handler) => (event) => {
    handler(JSON.parse(event.data));
  };
  const source = new EventSource("/events");
  source.addEventListener("snapshot", told((all) => {
    queries.clear();
    for (const query of all.queries) queries.set(query.name, query);
    choose(queries.has(chosen) ? chosen : queries.keys().next().value ?? null);
    if (!queries.size) $("status").textContent = "Waiting for a query …";
  }));
  source.addEventListener("added", told((query) => {
    queries.set(query.name, query);
    choose(chosen === null || chosen === undefined ? query.name : chosen);
  }));
  source.addEventListener("batch", told((batch) => {
    const query = queries.get(batch.query);
    if (!query) return;
    while (query.batches.length && query.batches.at(-1).batch >= batch.batch) query.batches.pop();
    keep(query.batches, [batch], KEEP.batches);
    for (const name of ["windows", "samples", "notes"]) keep(query[name], batch[name], KEEP[name]);
    query.rejected = batch.rejected;
    if (batch.query === chosen) draw();
  }));
  source.addEventListener("ended", told((end) => {
    const query = queries.get(end.query);
    if (!query) return;
    Object.assign(query, { state: end.state, failure: end.failure });
    if (end.query === chosen) draw();
  }));
  source.onerror = () => {
    $("status").textContent = "Connection lost; trying again …";
    $("status").dataset.state = "lost";
  };
  $("find").addEventListener("submit", (event) => event.preventDefault());
  $("look").addEventListener("submit", (event) => { event.preventDefault(); look(); });
  $("key").addEventListener("input", draw);
  $("value").addEventListener("change", () => {
    if (valuesPlot) { valuesPlot.destroy(); valuesPlot = null; }
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => choose(chosen));
  addEventListener("resize", () => {
    for (const { plot, place } of plots) plot.setSize({ width: Math.max(240, place.clientWidth - 16), height: 180 });
    if (valuesPlot) valuesPlot.setSize({ width: Math.max(240, $("windows-chart").clientWidth - 16), height: 200 });
  });
})();
