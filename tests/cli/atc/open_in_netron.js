// Opens a package with the reader of an installed Netron, whose modules are copied beside this file's copy, and prints
// what Netron draws: names and types of the nodes, names, shapes and bytes of the weights.
import { readFileSync } from 'node:fs';
import { BinaryStream } from './base.js';
import { ModelFactory } from './om.js';

const file = readFileSync(process.argv[2]);
const types = new Map(JSON.parse(readFileSync('om-metadata.json', 'utf8')).map((type) => [type.name, type]));
const context = {
    identifier: process.argv[2],
    stream: new BinaryStream(new Uint8Array(file)),
    metadata: async () => ({ type: (name) => types.get(name) || { name } }),
    require: async (id) => import(`${id}.js`),
    set: (type, value) => {
        context.value = value;
        return type;
    }
};
const factory = new ModelFactory();
await factory.match(context);
const model = await factory.open(context);
const [graph] = model.modules;
const weights = {};
for (const node of graph.nodes) {
    for (const value of node.inputs.flatMap((input) => input.value)) {
        if (value.initializer) {
            const { type, values } = value.initializer;
            weights[value.name] = { dtype: type.dataType, shape: type.shape.dimensions.map(Number), bytes: values.length };
        }
    }
}
const nodes = graph.nodes.map((node) => [node.name, node.type.name]);
process.stdout.write(JSON.stringify({ format: model.format, graph: graph.name, nodes, weights }));
