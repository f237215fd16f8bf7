// Browsers start no workers for pages that were opened from disk. The search of the site then runs in a hidden frame.
// The name of this file tells the theme's offline plugin that it need not load such a script from elsewhere.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.started = new Promise((resolve) => {
        const script = this.inner.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        this.inner.document.body.append(script);
      });
    }

    postMessage(data) {
      this.started.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
  window.Worker = window.IFrameWorker;
}
