"use strict";
// Shows what queries emit. Everything comes as server-sent events: a snapshot first, then batches.
(() => {
  const $ = (id) => document.getElementById(id);
  const KEEP = { batches: 600, windows: 500, samples: 50 };
  const OWN = new Set(["window_start", "window_end", "emission", "revision"]);
  const queries = new Map();
  let chosen = null;
  let plots = [];
  let valuesPlot = null;
  let drawn = 0;

  // An element with these properties and these children.
  const made = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const { number, said, moment, duration, shownAs, dated, whole, broken, withGaps } = Shown;
  function cell(value, kind, tag = "td") {
    const text = shownAs(value, kind), textContent = text.length > 300 ? `${text.slice(0, 300)}…` : text;
    return made(tag, { textContent, title: text.length > 40 ? textContent : "", className: kind === "count" ? "number" : "" });
  }
  const head = (names, kinds) => row(names.map((name) => cell(name, kinds[name] === "count" ? "count" : "", "th")));
  const HELD = { window_start: "time", window_end: "time", rows: "count", bytes: "count", runs: "count", blobs: "count", messages: "count" };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLOURS = ["--accent", "--full", "--late", "--early", "--retract"];
  const LINES = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6", "--line-7", "--line-8"];

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
    $("charts").replaceChildren(...query.charts.map(chart));
    $("windows-part").hidden = query.columns.length === 0;
    $("held-part").hidden = !query.looks;
    if (held.query !== name) shown({ query: name, said: "", rows: [] });
    const counts = query.columns.filter((c) => query.kinds[c] === "count");
    const values = counts.length ? counts : query.columns.filter((c) => !OWN.has(c) && !query.keys.includes(c));
    $("value").replaceChildren(...values.map((c) => new Option(c, c)));
    $("windows-head").replaceChildren(head(ordered(query), query.kinds));
    picked = null;
    draw();
  }

  // What was found when somebody last looked into the state.
  let held = { query: null };
  function shown(found) {
    held = found;
    const names = [...new Set(found.rows.flatMap(Object.keys))];
    $("held-said").textContent = found.said;
    $("held-head").replaceChildren(head(names, HELD));
    const kind = (name, value) => name.startsWith("window_") && !(value > 1e11) ? "" : HELD[name];
    $("held").replaceChildren(...found.rows.map((r) => row(names.map((c) => cell(r[c], kind(c, r[c]))))));
  }

  // The values of several columns, with commas between them; one with a comma stands in double quotes.
  function values_of(text) {
    const found = [], one = /\s*(?:"((?:[^"]|"")*)"\s*|([^,]*))(,|$)/y;
    for (let match, last = ","; last === "," && (match = one.exec(text)); last = match[3])
      found.push(match[1] === undefined ? match[2].trim() : match[1].replaceAll('""', '"'));
    return found;
  }

  async function look() {
    const query = queries.get(chosen), text = $("held-key").value.trim();
    if (!query) return;
    const key = text === "" ? [] : query.keys.length > 1 ? values_of(text) : [text];
    shown({ query: query.name, said: "Looking …", rows: [] });
    const asked = new URLSearchParams([["query", query.name], ...key.map((part) => ["key", part])]);
    try {
      const found = await (await fetch(`/held?${asked}`, { headers: { "X-Muntin": "look" } })).json();
      if (chosen !== query.name) return;
      const size = (found.shards ?? []).reduce((sum, shard) => sum + shard.bytes, 0);
      const said = found.error ?? (found.key && !found.key.length ? `Nothing is kept of ${text}.`
        : `Batch ${found.batch}: ${said_of(found)}${number.format(size / 1e6)} MB in ${found.shards.length} shard${found.shards.length === 1 ? "" : "s"}.`);
      shown({ query: query.name, said, rows: found.error ? [] : found.key ?? found.tables });
    } catch {
      shown({ query: query.name, said: "The query doesn't answer.", rows: [] });
    }
  }
  const said_of = (found) => found.spec?.windows ? `${found.spec.windows}; ` : "";

  const row = (cells) => made("tr", {}, ...cells);

  function tabs() {
    $("queries").replaceChildren(...[...queries.keys()].map((name) => made("button", {
      type: "button", textContent: name, ariaPressed: String(name === chosen), onclick: () => choose(name),
    })));
  }

  function axes(unit, timed) {
    const ink = css("--soft"), line = css("--line"), compact = new Intl.NumberFormat("en", { notation: "compact" });
    const values = (ticks) => {
      const short = ticks.map(unit === "seconds" ? duration : (t) => compact.format(t));
      return new Set(short).size < short.length ? ticks.map((t) => number.format(t)) : short;
    };
    return [
      { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, size: 46, space: 70,
        values: (_, ticks, __, ___, step) => timed ? dated(ticks, step) : values(ticks) },
      { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, size: unit === "seconds" ? 84 : 72,
        values: (_, ticks) => values(ticks) },
    ];
  }

  function plotted(place, names, height, { unit = "", colours = COLOURS, dots = false, timed = true } = {}) {
    const value = (_, v) => v === null || v === undefined ? "–" : unit === "seconds" ? duration(v) : said(v);
    const series = names.map((label, i) => ({
      label, value, stroke: css(colours[i % colours.length]), width: 2, spanGaps: false,
      ...(dots ? { paths: () => null, points: { show: true, size: 6, fill: css(colours[i % colours.length]) } } : {}),
    }));
    return new uPlot(
      { width: Math.max(240, place.clientWidth - 16), height, axes: axes(unit, timed), scales: { x: { time: timed } },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
        series: [{ label: timed ? "Time (UTC)" : "Start", value: (_, v) => v === null || v === undefined ? "–" : timed ? whole(v) : said(v) }, ...series],
        cursor: { drag: { x: true, y: false } } },
      [[], ...names.map(() => [])], place);
  }

  function chart(given) {
    const title = made("h3", {}, given.title, " ", made("span", {}, given.unit));
    const place = made("div", { className: "chart", role: "img", ariaLabel: `${given.title} over time, in ${given.unit}` }, title);
    requestAnimationFrame(() => {
      if (!place.isConnected) return;
      plots.push({ given, plot: plotted(place, given.series, 180, { unit: given.unit }), place });
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
      const known = numbers[tile.number] ?? null;
      const value = tile.unit === "time" ? (known === null ? "none" : moment(known))
        : tile.unit === "s" && typeof known === "number" ? duration(known)
        : said(known) + (tile.unit && known !== null ? ` ${tile.unit}` : "");
      return made("div", {}, made("dt", {}, tile.label), made("dd", {}, value));
    }));
    const times = query.batches.map((b) => b.at / 1000);
    for (const { given, plot, place } of plots) {
      place.classList.toggle("waits", times.length < 2);
      plot.setData(broken(times, given.series.map((s) => query.batches.map((b) => b.numbers[s] ?? null))));
    }
    windows(query);
    rejected(query);
    meters("phases", last?.phases, " ms");
    meters("keys-load", last?.load.keys, "");
    meters("shards-load", last?.load.shards, "");
    meters("state-load", last?.load.state, "");
    meters("functions-load", last?.load.functions, " ms");
    status(query);
    document.body.dataset.drawn = String(drawn);
  }

  const keyOf = (query, w) => query.keys.map((k) => w[k] === null || w[k] === undefined ? "\\N" : shownAs(w[k], query.kinds[k])).join(", ");
  function matching(query) {
    const wanted = $("key").value.trim().toLowerCase();
    if (!wanted) return query.windows;
    return query.windows.filter((w) => keyOf(query, w).toLowerCase().includes(wanted));
  }

  // How a window was emitted stands before what it holds, which may be wide.
  function ordered(query) {
    const first = query.columns.filter((c) => query.keys.includes(c) || c.startsWith("window_") || c === "emission");
    return [...first, ...query.columns.filter((c) => !first.includes(c))];
  }

  function windows(query) {
    if (query.columns.length === 0) return;
    const found = matching(query);
    $("windows-none").hidden = found.length > 0;
    $("windows-none").textContent = query.windows.length ? "No window of such a key." : "No window has been emitted yet.";
    $("windows").replaceChildren(...found.slice(-100).reverse().map((w) => row(ordered(query).map((c) => {
      const shownCell = cell(w[c], query.kinds[c]);
      if (c === "emission") shownCell.className = w[c];
      return shownCell;
    }))));
    lines(query, found);
  }

  // The newest value of each window that stands, by key and start.
  function newest(query, found, value) {
    const keys = new Map();
    for (const w of found) {
      if (typeof w.window_start !== "number") continue;
      const key = keyOf(query, w);
      if (!keys.has(key)) keys.set(key, new Map());
      if (w.emission === "retract") keys.get(key).delete(w.window_start);
      else if (typeof w[value] === "number") keys.get(key).set(w.window_start, w[value]);
    }
    return new Map([...keys].filter(([, points]) => points.size));
  }

  // Which keys are drawn: those that somebody picked, else those of the greatest values.
  let picked = null;
  const OFFERED = 24, DRAWN = 5;
  function lines(query, found) {
    const keys = newest(query, found, $("value").value);
    const weight = (points) => [...points.values()].reduce((sum, v) => sum + Math.abs(v), 0);
    const offered = [...keys].map(([key, points]) => [key, weight(points)]).sort((a, b) => b[1] - a[1]).slice(0, OFFERED).map(([key]) => key).sort();
    const ranked = [...offered].sort((a, b) => weight(keys.get(b)) - weight(keys.get(a)));
    if (picked === null || !offered.some((key) => picked.has(key))) picked = null;
    const drawnKeys = offered.filter((key) => picked ? picked.has(key) : ranked.indexOf(key) < DRAWN).slice(0, LINES.length);
    const starts = [...new Set(drawnKeys.flatMap((key) => [...keys.get(key).keys()]))].sort((a, b) => a - b);
    $("windows-chart").hidden = $("keys").hidden = starts.length < 2;
    if (starts.length < 2) return;
    choices(offered, drawnKeys, keys.size);
    const steps = starts.slice(1).map((t, i) => t - starts[i]), step = Math.min(...steps);
    const timed = query.kinds.window_start === "time";
    const regular = steps.every((one) => Math.abs(one / step - Math.round(one / step)) < 1e-9);
    const wanted = JSON.stringify([drawnKeys, regular, $("value").value]);
    if (!valuesPlot || valuesPlot.drawnAs !== wanted) {
      valuesPlot?.destroy();
      valuesPlot = plotted($("windows-chart"), drawnKeys.length ? drawnKeys.map((key) => key || $("value").value) : [], 220, { colours: LINES, dots: !regular, timed });
      valuesPlot.drawnAs = wanted;
    }
    const columns = drawnKeys.map((key) => starts.map((t) => keys.get(key).get(t) ?? null));
    const scale = timed ? 1000 : 1;
    valuesPlot.setData(withGaps(starts.map((t) => t / scale), columns, (1.5 * step) / scale, step / scale));
  }

  function choices(offered, drawnKeys, count) {
    $("keys").hidden = offered.length < 2;
    const wanted = JSON.stringify([offered, drawnKeys, count]);
    if ($("keys").dataset.shown === wanted) return;
    $("keys").dataset.shown = wanted;
    const more = made("span", {}, count > offered.length ? `and ${number.format(count - offered.length)} more: type a key to find it` : "");
    $("keys").replaceChildren(...offered.map((key) => {
      const at = drawnKeys.indexOf(key), textContent = key.length > 40 ? `${key.slice(0, 40)}…` : key;
      const button = made("button", { type: "button", textContent, ariaPressed: String(at >= 0) });
      if (at >= 0) button.style.setProperty("--mark", `var(${LINES[at]})`);
      button.addEventListener("click", () => {
        picked = new Set(drawnKeys);
        if (!picked.delete(key)) {
          if (picked.size >= LINES.length) picked.delete(picked.values().next().value);
          picked.add(key);
        }
        draw();
      });
      return button;
    }), more);
  }

  function rejected(query) {
    const reasons = Object.entries(query.rejected).filter(([, n]) => n);
    const words = reasons.length ? reasons.map(([reason, n]) => `${said(n)} ${reason}`) : ["nothing"];
    $("reasons").replaceChildren(...words.map((text) => made("li", {}, text)));
    // Why comes first: a message may have many columns.
    const names = [...new Set(["reason", "watermark", ...query.samples.flatMap(Object.keys)])]
      .filter((name) => query.samples.some((s) => name in s));
    $("samples-head").replaceChildren(head(names, query.rejected_kinds));
    $("samples").replaceChildren(...query.samples.slice(-20).reverse().map((s) => row(names.map((c) => cell(s[c], query.rejected_kinds[c])))));
  }

  function meters(id, figures, unit) {
    const pairs = Object.entries(figures ?? {});
    $(`${id}-part`).hidden = pairs.length === 0;
    const top = Math.max(1, ...pairs.map(([, value]) => value));
    $(id).replaceChildren(...pairs.map(([name, value]) => made("div", {},
      made("dt", {}, name), made("meter", { max: top, value, ariaLabel: name }), made("dd", {}, `${said(value)}${unit}`))));
  }

  function status(query) {
    const failed = query.state === "failed";
    $("failure").hidden = !failed;
    $("failure").textContent = failed ? `${query.name} failed: ${query.failure}` : "";
    const degraded = query.state === "running" && query.degraded !== "";
    const live = query.batches.length ? "Live" : "Waiting for the first batch …";
    const text = query.state === "running" ? (degraded ? `Degraded: ${query.degraded}` : live) : failed ? "Failed" : "Ended";
    if ($("status").textContent !== text) $("status").textContent = text;
    $("status").dataset.state = degraded ? "failed" : query.state === "running" ? "live" : query.state;
  }

  const heard = (handler) => (event) => handler(JSON.parse(event.data));
  const source = new EventSource("/events");
  source.addEventListener("snapshot", heard((all) => {
    queries.clear();
    for (const query of all.queries) queries.set(query.name, query);
    choose(queries.has(chosen) ? chosen : queries.keys().next().value ?? null);
    if (!queries.size) $("status").textContent = "Waiting for a query …";
  }));
  source.addEventListener("added", heard((query) => {
    queries.set(query.name, query);
    choose(chosen === null || chosen === undefined ? query.name : chosen);
  }));
  source.addEventListener("batch", heard((batch) => {
    const query = queries.get(batch.query);
    if (!query) return;
    while (query.batches.length && query.batches.at(-1).batch >= batch.batch) query.batches.pop();
    keep(query.batches, [batch], KEEP.batches);
    for (const name of ["windows", "samples"]) keep(query[name], batch[name], KEEP[name]);
    query.rejected = batch.rejected;
    if (batch.query === chosen) draw();
  }));
  source.addEventListener("degraded", heard((now) => {
    const query = queries.get(now.query);
    if (!query) return;
    query.degraded = now.degraded;
    if (now.query === chosen) draw();
  }));
  source.addEventListener("ended", heard((end) => {
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
    if (valuesPlot) valuesPlot.setSize({ width: Math.max(240, $("windows-chart").clientWidth - 16), height: 220 });
  });
})();
