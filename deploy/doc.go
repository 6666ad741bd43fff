// Package deploy defines what control needs from the place where labs are built. A [Deployment] is such a place, and
// each folder below holds one: deploy/local uses namespaces of this machine. deploy/labtest holds a fake, and the suite
// that every deployment runs.
package deploy
