// A bot in Node without any package: pulls jobs, reads the page's title and price, submits.
// OPILIO_SERVER=http://127.0.0.1:8000 OPILIO_BOT_TOKEN=… OPILIO_BOT_ID=… node node_bot.mjs
const {OPILIO_SERVER: server, OPILIO_BOT_TOKEN: token, OPILIO_BOT_ID: bot_id} = process.env;
let stopping = false;
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => { stopping = true; });

async function call(endpoint, body) {
  const response = await fetch(`${server}/api/crawl/${endpoint}/`, {
    method: "POST",
    headers: {authorization: `Bearer ${token}`, "content-type": "application/json"},
    body: JSON.stringify({bot_id, ...body}),
  });
  const answer = await response.json();
  if (!answer.success) throw new Error(`${answer.error.code}: ${answer.error.message}`);
  return answer.data;
}

async function crawl(url) {
  const page = await fetch(url, {signal: AbortSignal.timeout(20_000)});
  if (page.status === 404) return {success: false, error_code: "CONTENT_NOT_FOUND", error_msg: "404"};
  if (!page.ok) return {success: false, error_code: "NETWORK_ERROR", error_msg: `status ${page.status}`};
  const html = await page.text();
  const price = html.match(/"price":\s*"?([0-9.]+)/)?.[1];
  if (!price) return {success: false, error_code: "PARSE_ERROR", error_msg: "no price on the page"};
  const currency = html.match(/"priceCurrency":\s*"([A-Z]{3})"/)?.[1] ?? "USD";
  // The price as a text: a JavaScript number would lose its digits.
  return {success: true, price, currency, title: html.match(/<h1>([^<]*)/)?.[1]};
}

while (!stopping) {
  const {jobs} = await call("pull", {max_jobs: 5, wait_seconds: 2});
  await Promise.all(jobs.map(async ({job_id, lock_token, url}) => {
    const outcome = await crawl(url).catch((error) => (
      {success: false, error_code: "NETWORK_ERROR", error_msg: String(error)}));
    const done = await call("submit", {job_id, lock_token, ...outcome});
    console.log(done.status, url);
  }));
}
