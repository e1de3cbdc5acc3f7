// Adds a credential to every request, for a client that can't: listens on a free port and forwards to TARGET (a base
// URL) with AUTHORIZATION. The rest passes as it came, but that its own address becomes the target's in Host and Origin.
import { createServer, request } from 'node:http';

const target = new URL(process.env.TARGET);

const server = createServer((incoming, outgoing) => {
  const own = `127.0.0.1:${server.address().port}`;
  const headers = ['Authorization', process.env.AUTHORIZATION];
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
    const [name, value] = incoming.rawHeaders.slice(i, i + 2);
    const names = /^(host|origin)$/i.test(name);
    headers.push(name, names ? value.replace(own, target.host) : value);
  }
  const { hostname, port } = target;
  const onward = request({ hostname, port, path: incoming.url, method: incoming.method, headers, setHost: false });
  onward.on('response', (answer) => {
    outgoing.writeHead(answer.statusCode, answer.rawHeaders);
    outgoing.flushHeaders();
    answer.pipe(outgoing);
    answer.on('error', () => outgoing.destroy());
  });
  onward.on('error', () => outgoing.destroy());
  outgoing.on('close', () => onward.destroy());
  incoming.pipe(onward);
});
server.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
