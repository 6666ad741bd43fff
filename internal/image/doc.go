// Package image writes archives of container images: what `docker load`, `podman load`, `ctr images import`, kind and
// others read, where no registry is at hand.
package image
