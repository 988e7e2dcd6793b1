// Ends a Node that is too old for the host with a sentence; it is read before anything that such a Node cannot read.

var version = process.versions.node;
if (Number(version.split(".")[0]) < 20) {
  console.error("plugins need Bun or Node 20, and " + process.execPath + " is Node " + version + "; install a newer one");
  process.exit(78);
}
