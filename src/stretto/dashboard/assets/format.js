// Numbers with their units, so that columns of them can be compared at a glance.
"use strict";
(() => {
  const NONE = "–";
  const absent = (value) => value === null || value === undefined || Number.isNaN(value);

  function digits(value) {
    const size = Math.abs(value);
    return size >= 100 || size === 0 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
  }

  function scaled(value, steps, base) {
    let place = 0;
    while (Math.abs(value) >= base && place < steps.length - 1) {
      value /= base;
      place += 1;
    }
    return [value, steps[place]];
  }

  /** 12,345 as "12.3 k". */
  function count(value) {
    if (absent(value)) return NONE;
    const [shown, unit] = scaled(value, ["", "k", "M", "G"], 1000);
    const text = unit === "" && Number.isInteger(value) ? String(value) : digits(shown);
    return unit ? `${text} ${unit}` : text;
  }

  const rate = (value) => (absent(value) ? NONE : `${count(Math.abs(value) >= 10 ? Math.round(value) : value)}/s`);

  function ms(value) {
    if (absent(value)) return NONE;
    if (Math.abs(value) < 1000) return `${digits(value)} ms`;
    return seconds(value / 1000);
  }

  function seconds(value) {
    if (absent(value)) return NONE;
    if (Math.abs(value) < 120) return `${digits(value)} s`;
    if (Math.abs(value) < 7200) return `${digits(value / 60)} min`;
    return `${digits(value / 3600)} h`;
  }

  function bytes(value) {
    if (absent(value)) return NONE;
    const [shown, unit] = scaled(value, ["B", "kB", "MB", "GB", "TB"], 1000);
    return `${unit === "B" ? shown : digits(shown)} ${unit}`;
  }

  function percent(share) {
    if (absent(share)) return NONE;
    const value = share * 100;
    // 99.96 percent in time is not all.
    if (value > 99 && value < 100) return `${(Math.floor(value * 100) / 100).toFixed(value > 99.9 ? 2 : 1)} %`;
    return `${value >= 10 || value === 0 ? Math.round(value) : value.toFixed(1)} %`;
  }

  const number = (value) => (absent(value) ? NONE : Number(value.toPrecision(4)).toLocaleString("en"));

  /** A moment: the time of day, or the seconds since the beginning of a run. */
  function moment(time, clock = stretto.store.clock) {
    if (absent(time)) return NONE;
    if (clock === "run") return `${time.toFixed(1)} s`;
    return new Date(time * 1000).toLocaleTimeString("en-GB");
  }

  const words = (name) => name.replaceAll("_", " ");

  stretto.format = { absent, count, rate, ms, seconds, bytes, percent, number, moment, words, NONE };
})();
