// Package deploy says what control asks of the place where labs stand. A [Deployment] is such a place; each folder
// below is one: deploy/local has namespaces of this machine. deploy/labtest holds a fake, and the suite that every
// deployment runs.
package deploy
