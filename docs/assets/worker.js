// Browsers start no worker for a page that was opened as a file. There the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(inside.document, address)), Promise.resolve());
      this.inside = inside;
      this.ready = load(inside.document, url);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
  const load = (page, address) =>
    new Promise((done, failed) => {
      const script = page.createElement("script");
      script.src = new URL(address, document.baseURI).href;
      script.onload = done;
      script.onerror = failed;
      page.body.appendChild(script);
    });
}
