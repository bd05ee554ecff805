/* Numbers, sizes and times as people read them: in the same words as `stateplan job top`. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const UNITS = ["B", "KiB", "MiB", "GiB"];
const SPANS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];

export const count = (number) => (number === null || number === undefined ? "" : whole.format(number));

/** 1,234 as it is; 1234567 as 1.23M: for places with little room. */
export const short = (number) => {
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (number >= 1e4 && number >= 0.9995 * size) return `${(number / size).toPrecision(3)}${letter}`;
  }
  return whole.format(number);
};

export const rate = (number) => {
  if (number === null || number === undefined) return "";
  return number >= 10 || number === 0 ? short(number) : number.toFixed(1);
};

export const bytes = (number) => {
  if (number === null || number === undefined) return "";
  let size = number;
  for (const unit of UNITS) {
    if (Math.abs(size) < 1024) return unit === "B" || Math.abs(size) >= 100 ? `${size.toFixed(0)} ${unit}` : `${size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
};

export const took = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

/** A time span with its two largest units: "2 h 5 min". */
export const span = (ms) => {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const at = SPANS.findIndex(([size]) => ms >= size);
  const [size, unit] = SPANS[at];
  const first = `${Math.floor(ms / size)} ${unit}`;
  const next = SPANS[at + 1];
  const rest = next ? Math.floor((ms % size) / next[0]) : 0;
  return rest ? `${first} ${rest} ${next[1]}` : first;
};

/** A time span with its largest unit: "2 h". */
export const unit = (ms) => span(ms).split(" ", 2).join(" ");

export const share = (number) => (number === null || number === undefined ? "" : `${Math.round(100 * number)}%`);

/** An instant in UTC, as the command line has it; watermarks may be at the end of time. */
export const instant = (ms) => {
  if (ms === null || ms === undefined) return "";
  if (ms >= 2 ** 62) return "end of time";
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
};

export const clock = (ms) => {
  if (ms >= 2 ** 62) return "end of time";
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString().slice(11, 19);
};

/** "0 ms" is a TTL of state that never expires. */
export const ttl = (text) => (text === "0 ms" ? "never" : text);

export const plural = (number, noun, more = `${noun}s`) => `${count(number)} ${number === 1 ? noun : more}`;

/** What happens while the plan of a job changes. */
export const changeText = (change) => {
  const parts = [change.stage];
  if (change.rows !== null) parts.push(`${count(change.rows)} rows of history read`);
  if (change.share !== null) parts.push(share(change.share));
  if (change.secondsLeft !== null) parts.push(`about ${span(1000 * change.secondsLeft)} left`);
  return parts.join(", ");
};
