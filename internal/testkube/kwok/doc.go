// Package kwok has a go.mod that names kwok, the controller of fake nodes and pods, which package testkube builds.
package kwok
