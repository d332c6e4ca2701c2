// The newest samples, and what each one says beside one of a second ago.

// The time over which rates are taken, in seconds of the server's clock.
const WINDOW = 1;

class Recent {
  constructor() {
    this.samples = [];
  }

  // Takes a sample, { at, metrics }; gives the picture of the last second, or null while there is
  // no earlier sample of the same process.
  add(sample) {
    const last = this.samples[this.samples.length - 1];
    // A clock that has gone back is the clock of another process.
    if (last !== undefined && sample.at <= last.at) this.samples = [];
    this.samples.push(sample);
    const old = this.samples.findLastIndex((one) => one.at <= sample.at - WINDOW + 1e-9);
    if (old > 0) this.samples.splice(0, old);
    return this.samples.length > 1 ? pictureBetween(this.samples[0], sample) : null;
  }

  // Every series with its value, and its growth per second if it is a counter's.
  table() {
    const [first, newest] = [this.samples[0], this.samples[this.samples.length - 1]];
    if (newest === undefined) return [];
    const span = new Span(first, newest);
    return [...newest.metrics].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([name, series]) =>
      series.map((one) => ({
        name,
        labels: [...one.labels].map(([label, value]) => `${label}="${value}"`).join(", "),
        value: one.value,
        rate: /_(total|count|bucket|sum)$/.test(name) && span.seconds > 0
          ? span.growth(name, one) / span.seconds
          : null,
      })));
  }
}
