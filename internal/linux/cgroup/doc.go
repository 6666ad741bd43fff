// Package cgroup finds and removes control groups in the mounted hierarchies, of cgroup v1 and v2 alike (cgroups(7)).
package cgroup
