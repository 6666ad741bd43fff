package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
)

type question struct {
	Policies []*networking.NetworkPolicy `json:"policies"`
	Pods     []struct {
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
		IP        string            `json:"ip"`
	} `json:"pods"`
	Ports []struct {
		Protocol core.Protocol `json:"protocol"`
		Port     int           `json:"port"`
	} `json:"ports"`
}

func main() {
	if err := answer(); err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
}

func answer() error {
	var q question
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		return err
	}
	policy := matcher.BuildNetworkPolicies(false, q.Policies)
	peers := make([]*matcher.TrafficPeer, len(q.Pods))
	for i, p := range q.Pods {
		peers[i] = &matcher.TrafficPeer{
			Internal: &matcher.InternalPeer{PodLabels: p.Labels, Namespace: p.Namespace}, IP: p.IP,
		}
	}
	all := make([][][]bool, len(peers))
	for i, source := range peers {
		all[i] = make([][]bool, len(peers))
		for k, sink := range peers {
			for _, port := range q.Ports {
				all[i][k] = append(all[i][k], policy.IsTrafficAllowed(&matcher.Traffic{
					Source: source, Destination: sink, ResolvedPort: port.Port, Protocol: port.Protocol,
				}).IsAllowed())
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}
