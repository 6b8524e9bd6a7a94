// Tries an operation of the API from its page, and keeps the curl command up with what is filled in.
(() => {
  const form = document.querySelector("#try"), { method, server, csrf } = form.dataset, isBot = "bot" in form.dataset;
  const body = form.querySelector("[data-body]"), media = form.querySelector("[data-media]"), curl = document.querySelector("#curl");
  const path = (fill) => {
    const query = new URLSearchParams();
    for (const input of form.querySelectorAll("[data-query]")) if (input.value) query.append(input.dataset.query, input.value);
    const filled = form.dataset.path.replace(/\{(\w+)\}/g, (place, name) => {
      const { value } = form.querySelector(`[data-path="${name}"]`) ?? { value: "" };
      return value ? encodeURIComponent(value) : fill(place);
    });
    return query.size ? `${filled}?${query}` : filled;
  };
  const kind = () => media?.value ?? body?.dataset.body;
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

  const tellCurl = () => {
    const parts = [`curl -H "Authorization: Bearer $${isBot ? "OPILIO_BOT_TOKEN" : "OPILIO_KEY"}"`];
    if (method !== "GET") parts.push(`-X ${method}`);
    if (body?.value) parts.push(`-H ${quoted(`Content-Type: ${kind()}`)}`, `--data-binary ${quoted(body.value)}`);
    curl.textContent = [...parts, quoted(server + path((place) => place))].join(" ");
  };

  const show = (status, isGood, text, time) => {
    const badge = document.querySelector("#response-status");
    badge.textContent = status;
    badge.className = `badge ${isGood ? "good" : "bad"}`;
    document.querySelector("#response-time").textContent = time;
    document.querySelector("#response-body").textContent = text;
    document.querySelector("#response").hidden = false;
  };
  // Numbers that a browser cannot hold exactly must not change: compact JSON is indented as text, never parsed and written again.
  const indented = (text) => {
    let depth = 0;
    const line = () => `\n${"  ".repeat(depth)}`;
    return text.replace(/"(?:[^"\\]|\\.)*"|[{}[\],:]/g, (part, at) => {
      if (part === "{" || part === "[") { depth += 1; return "}]".includes(text[at + 1]) ? part : part + line(); }
      if (part === "}" || part === "]") { depth -= 1; return "{[".includes(text[at - 1]) ? part : line() + part; }
      return part === "," ? part + line() : part === ":" ? ": " : part;
    });
  };

  form.addEventListener("input", tellCurl);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const headers = isBot ? { authorization: `Bearer ${form.elements.token.value}` } : { "x-csrf-token": csrf };
    if (body?.value) headers["content-type"] = kind();
    const began = performance.now();
    try {
      const answer = await fetch(path(() => ""), { method, headers, body: body?.value || undefined, credentials: isBot ? "omit" : "same-origin" });
      const text = await answer.text(), isJson = answer.headers.get("content-type")?.includes("json") && !answer.headers.get("content-type").includes("ndjson");
      show(answer.status, answer.ok, isJson ? indented(text) : text, `${Math.round(performance.now() - began)} ms`);
    } catch (error) {
      show("–", false, error.message, "");
    }
  });
})();
