// Runs the script of a test with GitHub's own clients, unmodified, from npm.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

const load = name => import(path.join(process.env.MODULES, '@actions', name, 'lib', `${name}.js`));
const core = await load('core');
const cache = await load('cache');
const {DefaultArtifactClient} = await load('artifact');
const artifact = new DefaultArtifactClient();

const sha256 = file => crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex');

// A file that cannot be compressed, the same for the same seed.
const write = (file, size, seed = file) => {
  fs.mkdirSync(path.dirname(path.resolve(file)), {recursive: true});
  const key = crypto.createHash('sha256').update(seed).digest();
  const stream = crypto.createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
  const out = fs.openSync(file, 'w');
  const zeros = Buffer.alloc(1 << 20);
  for (let left = size; left > 0; left -= zeros.length) {
    fs.writeSync(out, stream.update(zeros.subarray(0, Math.min(left, zeros.length))));
  }
  fs.closeSync(out);
  return sha256(file);
};

const remove = place => fs.rmSync(place, {recursive: true, force: true});
const known = {assert, artifact, cache, core, crypto, fs, path, remove, sha256, token: process.env.INPUT_TOKEN, write};
try {
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  await new AsyncFunction(...Object.keys(known), process.env.INPUT_SCRIPT)(...Object.values(known));
} catch (error) {
  core.setFailed(error.stack);
}
