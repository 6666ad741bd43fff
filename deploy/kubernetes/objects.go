package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An object is an object of the Kubernetes API, as it is sent.
type object = map[string]any

// Labels of what a run makes.
const (
	// managedBy is the label of Kubernetes for the tool that manages an object.
	managedBy = "app.kubernetes.io/managed-by"
	manager   = "nettoll"
	runLabel  = "nettoll/run"
	labLabel  = "nettoll/lab"
	jobLabel  = "nettoll/job"
	// indexLabel is that of Kubernetes for the index of a pod of a Job.
	indexLabel = "batch.kubernetes.io/job-completion-index"
	// podLabel is the index of a pod that is apart, see [jobSpec]. Policies choose pods by it and jobLabel. They cannot by
	// indexLabel: Cilium ignores labels of Kubernetes by default (cilium/cilium, pkg/labelsfilter/filter.go).
	podLabel = "nettoll/pod"
)

// containerName is the name of the only container of each pod.
const containerName = "nettoll"

// keep is how long the cluster keeps a Job that has ended, in seconds.
const keep = 30

// namespaceOf returns the namespace of a run. Its pods are as restricted as Kubernetes knows it, unless some share the
// network or the processes of their node, which only the level privileged allows
// (https://kubernetes.io/docs/concepts/security/pod-security-standards).
func namespaceOf(name, run string, privileged bool) object {
	level := "restricted"
	if privileged {
		level = "privileged"
	}
	return object{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": object{"name": name, "labels": object{
			managedBy: manager, runLabel: run, "pod-security.kubernetes.io/enforce": level,
		}},
	}
}

// A jobSpec describes pods that are alike.
type jobSpec struct {
	name, run string
	lab       string // "" of scouts
	image     string
	pods      int
	// node is the one on which they are; "": each is on another one, which the cluster chooses.
	node   string
	shares bool   // the network of their node
	attach string // names a NetworkAttachmentDefinition by which they get a second interface; "": they get none
	// runs are the first process of each pod and its arguments; nil: one that waits for others.
	runs []string
	// daemons says that it is a DaemonSet, see monitorsOf.
	daemons bool
	// apart says that each pod has a Job and a label of its own, so that policies can choose it. Otherwise all of them are
	// of one Job.
	apart bool
	// limit is how long the cluster keeps the Jobs, whether their pods have started or not; 0: until they end.
	limit time.Duration
	// owner is a reference to the object with which the cluster removes the Jobs, even if no pod of them has ever started;
	// nil: they have none.
	owner object
}

// names are those of its Jobs.
func (j jobSpec) names() []string {
	if !j.apart {
		return []string{j.name}
	}
	list := make([]string, j.pods)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", j.name, i)
	}
	return list
}

// kind is its name in the API, and in sentences.
func (j jobSpec) kind() (kind, said string) {
	if j.daemons {
		return "DaemonSet", "daemon set"
	}
	return "Job", "job"
}

// container returns the only container of each pod.
func (j jobSpec) container(runs ...string) object {
	return object{
		"name": containerName, "image": j.image, "imagePullPolicy": "IfNotPresent",
		"command": append([]string{binary}, runs...),
		"securityContext": object{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": object{"drop": []string{"ALL"}},
		},
	}
}

// selector selects a pod by its index.
func (j jobSpec) selector(index int) object {
	key := indexLabel
	if j.apart {
		key = podLabel
	}
	return object{"matchLabels": object{jobLabel: j.name, key: strconv.Itoa(index)}}
}

// objects returns the Jobs.
func (j jobSpec) objects() []object {
	names := j.names()
	list := make([]object, len(names))
	for i, name := range names {
		if j.apart {
			list[i] = j.object(name, 1, object{podLabel: strconv.Itoa(i)})
		} else {
			list[i] = j.object(name, j.pods, nil)
		}
	}
	return list
}

// object returns a Job whose pods have some labels more. They ask for nothing: what is measured is what pods get beside
// others. They have no rights, and may not get any.
func (j jobSpec) object(name string, pods int, more object) object {
	labels := object{managedBy: manager, runLabel: j.run, jobLabel: j.name}
	if j.lab != "" {
		labels[labLabel] = j.lab
	}
	maps.Copy(labels, more)
	affinity := object{"podAntiAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": []object{{
		"topologyKey": "kubernetes.io/hostname", "labelSelector": object{"matchLabels": object{jobLabel: j.name}},
	}}}}
	if j.node != "" {
		affinity = object{"nodeAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": object{
			"nodeSelectorTerms": []object{{"matchFields": []object{{
				"key": "metadata.name", "operator": "In", "values": []string{j.node},
			}}}},
		}}}
	}
	runs := j.runs
	if runs == nil {
		runs = []string{PodCommand}
	}
	security := object{
		"runAsNonRoot": true, "runAsUser": nobody, "runAsGroup": nobody,
		"seccompProfile": object{"type": "RuntimeDefault"},
	}
	if !j.shares { // the node's are not ours; this one is safe for Kubernetes, and lets a pod send echo requests
		security["sysctls"] = []object{{"name": "net.ipv4.ping_group_range", "value": "0 2147483647"}}
	}
	meta := object{"labels": labels}
	if j.attach != "" {
		meta["annotations"] = object{askAnnotation: j.attach}
	}
	own := object{"name": name, "labels": labels}
	if j.owner != nil {
		own["ownerReferences"] = []object{j.owner}
	}
	spec := object{
		"completionMode": "Indexed", "completions": pods, "parallelism": pods, "backoffLimit": 0,
		"ttlSecondsAfterFinished": keep,
		"template": object{
			"metadata": meta,
			"spec": object{
				"restartPolicy": "Never", "affinity": affinity, "hostNetwork": j.shares,
				"automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 1,
				"securityContext": security,
				"containers":      []object{j.container(runs...)},
			},
		},
	}
	if j.limit > 0 {
		spec[limitField] = int(j.limit.Seconds())
	}
	return object{"apiVersion": "batch/v1", "kind": "Job", "metadata": own, "spec": spec}
}

// limitField is the field of a Job that says after how many seconds the cluster ends it. It can be changed
// (ValidateJobSpecUpdate, pkg/apis/batch/validation of k8s.io/kubernetes).
const limitField = "activeDeadlineSeconds"

const (
	// binary is the path of nettoll in its image.
	binary = "/nettoll"
	// nobody is the user of pods, who owns nothing.
	nobody = 65534
)

// A pod is what the API tells of a pod, as far as it is needed here.
type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		UID         string            `json:"uid"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Created     time.Time         `json:"creationTimestamp"`
		Deletion    string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Node string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string      `json:"phase"`
		Reason     string      `json:"reason"`
		Message    string      `json:"message"`
		IPs        []ip        `json:"podIPs"`
		HostIP     string      `json:"hostIP"`  // an address of its node
		HostIPs    []ip        `json:"hostIPs"` // those of all families, from Kubernetes 1.29 on
		Conditions []condition `json:"conditions"`
		Containers []struct {
			State struct {
				Running *struct{} `json:"running"`
				Waiting *struct {
					Reason  string `json:"reason"`
					Message string `json:"message"`
				} `json:"waiting"`
				Terminated *struct {
					Reason  string `json:"reason"`
					Message string `json:"message"`
					Code    int    `json:"exitCode"`
				} `json:"terminated"`
			} `json:"state"`
			ImageID string `json:"imageID"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

type ip struct {
	IP string `json:"ip"`
}

type podList struct {
	Metadata struct {
		Continue string `json:"continue"` // where the next answer begins; "" if this is the last one
	} `json:"metadata"`
	Items []pod `json:"items"`
}

// index is the number of the pod among those that are alike; -1 if it has none.
func (p *pod) index() int {
	if i, err := strconv.Atoi(cmp.Or(p.Metadata.Labels[podLabel], p.Metadata.Labels[indexLabel])); err == nil {
		return i
	}
	return -1
}

// addresses are those of the pod; invalid where it has none of a family.
func (p *pod) addresses() (v4, v6 netip.Addr) { return byFamily(p.Status.IPs) }

// node are the addresses of the pod's node; invalid where none of a family is known.
func (p *pod) node() (v4, v6 netip.Addr) {
	return byFamily(append(slices.Clone(p.Status.HostIPs), ip{p.Status.HostIP}))
}

// byFamily returns the first address of each family.
func byFamily(list []ip) (v4, v6 netip.Addr) {
	for _, one := range list {
		a, err := netip.ParseAddr(one.IP)
		switch {
		case err != nil:
		case a.Is4() && !v4.IsValid():
			v4 = a
		case a.Is6() && !v6.IsValid():
			v6 = a
		}
	}
	return v4, v6
}

// A condition is something that the cluster says of a pod or a node.
type condition struct {
	Type    string `json:"type"`   // "Ready"
	Status  string `json:"status"` // "True", "False" or "Unknown"
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// runs says whether the pod's process runs and has its addresses.
func (p *pod) runs() bool {
	return p.Metadata.Deletion == "" && p.Status.Phase == "Running" && len(p.Status.IPs) > 0 &&
		len(p.Status.Containers) == 1 && p.Status.Containers[0].State.Running != nil
}

// never says why the pod will not run, unless somebody does something; "" as long as it may.
func (p *pod) never() string {
	if p.Metadata.Deletion != "" {
		return "it was deleted" + p.disrupted()
	}
	if p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded" {
		return "it has ended" + because(p.Status.Reason, p.Status.Message) + p.ended()
	}
	for _, c := range p.Status.Containers {
		if w := c.State.Waiting; w != nil && slices.Contains([]string{
			"ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError",
			"RunContainerError",
		}, w.Reason) {
			return "its container does not start" + because(w.Reason, w.Message)
		}
	}
	return ""
}

// disrupted says who ended the pod, such as an eviction or a taint of its node, after a colon; "" if nobody says so
// (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions).
func (p *pod) disrupted() string {
	for _, c := range p.Status.Conditions {
		if c.Type == "DisruptionTarget" && c.Status == "True" {
			return because(c.Reason, c.Message)
		}
	}
	return ""
}

// ended says how the container ended, after a semicolon; "" if it has not.
func (p *pod) ended() string {
	for _, c := range p.Status.Containers {
		if t := c.State.Terminated; t != nil {
			return fmt.Sprintf("; its container ended with status %d%s", t.Code, because(t.Reason, t.Message))
		}
	}
	return ""
}

// waits says what the pod waits for, as far as the cluster tells.
func (p *pod) waits() string {
	for _, c := range p.Status.Conditions {
		if c.Status == "False" && c.Type == "PodScheduled" {
			return "it has no node" + because(c.Reason, c.Message)
		}
	}
	for _, c := range p.Status.Containers {
		if w := c.State.Waiting; w != nil {
			return "its container waits" + because(w.Reason, w.Message)
		}
	}
	return "its phase is " + p.Status.Phase
}

// because joins what the cluster gives as a reason, after a colon.
func because(reason, message string) string {
	text := strings.TrimSpace(strings.Join(strings.Fields(message), " "))
	switch {
	case reason == "" && text == "":
		return ""
	case reason == "" || text == "":
		return ": " + reason + text
	}
	return fmt.Sprintf(": %s (%s)", text, reason)
}
