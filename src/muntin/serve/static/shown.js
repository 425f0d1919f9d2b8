"use strict";
// How values are shown: times of one 24-hour clock, lengths of time in words, gaps as gaps.
const Shown = (() => {
  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
  // Fractions of a hundred and more say nothing.
  const said = (value) =>
    value === null || value === undefined ? "none" :
    typeof value === "number" ? number.format(Math.abs(value) < 100 ? value : Math.round(value)) : String(value);
  // A time of the 24-hour clock, in UTC; of any year that a date has, and a plain number beyond.
  const moment = (ms) => Math.abs(ms) <= 864e13
    ? new Date(ms).toISOString().replace("T", " ").replace(/\.?0*Z$/, "").replace(/^([+-])0*(?=\d{4})/, (_, sign) => sign === "-" ? "-" : "")
    : `${ms} ms`;
  const PARTS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  // A length of time in two units at most: 2 h 11 min.
  function duration(seconds) {
    const size = Math.abs(seconds), sign = seconds < 0 ? "−" : "";
    if (size < 1) return `${sign}${Math.round(size * 1000)} ms`;
    if (size < 60) return `${sign}${number.format(Math.round(size * 10) / 10)} s`;
    const first = PARTS.findIndex(([, each]) => size >= each);
    const [unit, each] = PARTS[first], [smaller, part] = PARTS[first + 1];
    let whole = Math.floor(size / each), rest = Math.round((size % each) / part);
    if (rest * part === each) { whole += 1; rest = 0; }
    return `${sign}${number.format(whole)} ${unit}${rest ? ` ${rest} ${smaller}` : ""}`;
  }
  // A cell by what its column holds: times as times, counts with commas, all else as it came.
  function shownAs(value, kind) {
    if (value === null || value === undefined) return "";
    if (kind === "time" && typeof value === "number") return moment(value);
    if (kind === "count" && typeof value === "number") return number.format(value);
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  }
  const whole = (seconds) => moment(Math.floor(seconds) * 1000);
  const clock = (seconds, step) => {
    const text = whole(seconds);
    return step >= 86400 ? text.slice(0, -9) : text.slice(-8, step >= 60 ? -3 : undefined);
  };
  // The date stands below the first time, and wherever it is another than before.
  const dated = (ticks, step) => ticks.map((t, i) => {
    const date = clock(t, 86400);
    return step >= 86400 || (i && date === clock(ticks[i - 1], 86400)) ? clock(t, step) : `${clock(t, step)}\n${date}`;
  });

  // Where nothing came for far longer than usual, the line breaks.
  function broken(times, columns) {
    const steps = times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b);
    const longest = Math.max(5, 5 * (steps[steps.length >> 1] ?? 0));
    return withGaps(times, columns, longest, longest);
  }
  function withGaps(times, columns, longest, step) {
    const places = [], made = columns.map(() => []);
    times.forEach((t, i) => {
      if (i && t - times[i - 1] > longest) {
        places.push(times[i - 1] + step / 2);
        made.forEach((column) => column.push(null));
      }
      places.push(t);
      made.forEach((column, n) => column.push(columns[n][i]));
    });
    return [places, ...made];
  }

  return { number, said, moment, duration, shownAs, clock, dated, whole, broken, withGaps };
})();
