// Waiting for what must come, with a deadline instead of a pause.

// A machine that does nothing else needs a tenth.
const LIMIT_MS = 20_000;

// The promise's value, or an error that says what did not come.
function within(limitMs, promise, what) {
  let timer;
  const deadline = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not there after ${limitMs} ms: ${what}`)), limitMs);
  });
  return Promise.race([promise, deadline]).finally(() => clearTimeout(timer));
}

// Things that come one by one, and whoever waits for the next.
class Inbox {
  #items = [];
  #waiting = [];

  put = (item) => {
    const waiter = this.#waiting.shift();
    if (waiter) waiter(item);
    else this.#items.push(item);
  };

  next(what = "the next item", limitMs = LIMIT_MS) {
    if (this.#items.length > 0) return Promise.resolve(this.#items.shift());
    return within(limitMs, new Promise((resolve) => this.#waiting.push(resolve)), what);
  }

  async take(count, what) {
    const items = [];
    while (items.length < count) items.push(await this.next(what));
    return items;
  }

  get isEmpty() {
    return this.#items.length === 0;
  }
}

module.exports = { Inbox, LIMIT_MS, within };
