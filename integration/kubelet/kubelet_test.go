// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	// nodeName is an address: the kubelet then takes it for the node's, and looks
	// for no network.
	nodeName = "127.0.0.1"
	// api is the kubelet's read-only port, of which each network has its own.
	api = "http://127.0.0.1:10255"

	rootDir   = "/var/lib/kubelet" // the default, which some of its paths have whatever it is told
	manifests = "/run/manifests"   // of static pods
	logFile   = "/var/log/kubelet.log"

	// limit bounds whatever is waited for: enough for a kubelet's back-off of 10
	// seconds, some times, on a machine with ten times the work that it can do.
	limit = 4 * time.Minute
	// patience keeps a busy machine from being taken for a registry that does not answer:
	// the registries of these tests refuse and fail at once.
	patience = `verify_timeout = "30s"`
)

// Kubelet is a stock kubelet and the Node under it.
type Kubelet struct {
	T    *testing.T
	Node *nodetest.Node
	// Config is the kubelet's configuration, from the next start on.
	Config map[string]any
	// Flags are more of the kubelet's flags, from the next start on.
	Flags []string

	cluster *Cluster // nil where its pods are files
	cmd     *exec.Cmd
	exited  chan struct{} // closed once cmd is gone
	pods    int           // made so far
}

// onNode runs a test of a kubelet on a started Node whose pods run containers, with
// a registry behind registry.test. The options are the daemon's.
func onNode(t *testing.T, test func(*Kubelet), opts ...nodetest.Option) {
	t.Helper()
	alone(t, withKubelet(test, opts...))
}

// withKubelet makes what onNode runs in a process of its own.
func withKubelet(test func(*Kubelet), opts ...nodetest.Option) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		k := newKubelet(t, resolvertest.New(t), opts...)
		k.Start()
		test(k)
	}
}

// newKubelet makes a kubelet that Start starts, on a started Node with that registry
// behind registry.test.
func newKubelet(t *testing.T, r *resolvertest.Registry, opts ...nodetest.Option) *Kubelet {
	t.Helper()
	opts = slices.Concat([]nodetest.Option{nodetest.Section(patience)}, opts, []nodetest.Option{nodetest.Containers(t)})
	n := nodetest.NewWith(t, r, opts...)
	pause := resolvertest.New(t)
	n.PushTo(pause, "pause:1", nodetest.Busybox(t, 0, "sleep", "86400"))
	n.Serve("pause.test", pause)
	for _, dir := range []string{manifests, rootDir} {
		n.Must(os.MkdirAll(dir, 0o700))
	}
	k := &Kubelet{T: t, Node: n, Config: maps.Clone(config)}
	k.Config["containerRuntimeEndpoint"] = "unix://" + n.Address()
	k.Config["cgroupRoot"] = "/" + os.Getenv(cgroupEnv)
	t.Cleanup(func() {
		k.Stop()
		if t.Failed() {
			t.Logf("the daemon's decisions:\n%s", strings.Join(n.LogLines(0, "pullwarden: "), "\n"))
			t.Logf("the kubelet's log:\n%s", k.logTail(60))
		}
		n.Stop() // a daemon would clean up behind its shims, and race with the node for mounts
		n.KillShims()
	})
	return k
}

// config is that of a kubelet without an API server, on a machine that is not its
// own. What is not here has its default, KEP-2535's gate among it.
var config = map[string]any{
	"apiVersion":                    "kubelet.config.k8s.io/v1beta1",
	"kind":                          "KubeletConfiguration",
	"address":                       "127.0.0.1",
	"readOnlyPort":                  10255,
	"authentication":                map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
	"authorization":                 map[string]any{"mode": "AlwaysAllow"},
	"staticPodPath":                 manifests,
	"fileCheckFrequency":            "1s",
	"syncFrequency":                 "2s",
	"volumePluginDir":               "/run/volume-plugins",
	"resolvConf":                    "",
	"registerNode":                  false,
	"failSwapOn":                    false,
	"protectKernelDefaults":         true,
	"localStorageCapacityIsolation": false,
	"failCgroupV1":                  false,
	"cgroupDriver":                  "cgroupfs",
	"enforceNodeAllocatable":        []string{},
}

// Start starts the kubelet and waits until it answers for its pods.
func (k *Kubelet) Start() {
	k.T.Helper()
	k.Node.Write("/run/kubelet.json", marshal(k.T, k.Config))
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	k.Node.Must(err)
	defer log.Close()
	k.cmd = exec.Command(filepath.Join(binary(k.T, kubernetesEnv), "kubelet"), "--config", "/run/kubelet.json", "--root-dir", rootDir, "--hostname-override", nodeName, "--v", "2")
	k.cmd.Args = append(k.cmd.Args, k.Flags...)
	k.cmd.Stdout, k.cmd.Stderr = log, log
	k.Node.Must(k.cmd.Start())
	k.exited = make(chan struct{})
	go func() {
		_ = k.cmd.Wait() // its state is in cmd
		close(k.exited)
	}()
	k.until("the kubelet answers", func() error { _, err := k.list(); return err })
}

// Stop ends the kubelet, and leaves its pods running.
func (k *Kubelet) Stop() {
	if k.cmd == nil || k.cmd.Process == nil {
		return
	}
	_ = k.cmd.Process.Signal(syscall.SIGKILL)
	<-k.exited
}

// Restart stops the kubelet and starts it on the same root, with the Config it has
// now.
func (k *Kubelet) Restart() {
	k.T.Helper()
	k.Stop()
	k.Start()
}

// Push pushes an image that runs until it is stopped to the node's registry, as
// "repository:tag". Another seed gives another image.
func (k *Kubelet) Push(ref string, seed int64) digest.Digest {
	k.T.Helper()
	return k.Node.Push(ref, nodetest.Busybox(k.T, seed, "sleep", "86400"))
}

// labelled gives an error where an image has another value of a label of
// pullwarden's.
func (k *Kubelet) labelled(ref, label, value string) error {
	if got := k.Node.Labels(ref)[label]; got != value {
		return fmt.Errorf("%s of %s is %q, want %q", label, ref, got, value)
	}
	return nil
}

// wantOutcome holds that one decision about an image since the mark had that outcome.
func (k *Kubelet) wantOutcome(since node.Mark, ref, outcome string) {
	k.T.Helper()
	all := k.Node.Decisions(since, ref)
	if !slices.ContainsFunc(all, func(d node.Decision) bool { return d.Outcome == outcome }) {
		k.T.Errorf("no decision about %s is %s: %v", ref, outcome, all)
	}
}

// rules gives the daemon a rule file.
func rules(t *testing.T, toml string) nodetest.Option {
	return func(o *node.Options) {
		path := filepath.Join(o.Dir, "rules", "test.toml")
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(toml), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// until is within limit.
func (k *Kubelet) until(what string, f func() error) {
	k.T.Helper()
	k.within(limit, what, f)
}

// within polls f until it gives no error, and ends the test where that takes longer,
// or the kubelet has ended.
func (k *Kubelet) within(limit time.Duration, what string, f func() error) {
	k.T.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-k.exited:
			k.T.Fatalf("the kubelet has ended (%v) before: %s: %v", k.cmd.ProcessState, what, err)
		case <-deadline:
			k.T.Fatalf("never: %s: %v", what, err)
		case <-tick.C:
		}
	}
}

// list returns the pods that the kubelet has, by name.
func (k *Kubelet) list() (map[string]podStatus, error) {
	resp, err := http.Get(api + "/pods")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var all struct {
		Items []struct {
			Metadata metadata  `json:"metadata"`
			Status   podStatus `json:"status"`
		} `json:"items"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("read pods: %w", err)
	}
	pods := map[string]podStatus{}
	for _, p := range all.Items {
		pods[p.Metadata.Name] = p.Status
	}
	return pods, nil
}

// logTail returns the last lines of the kubelet's log.
func (k *Kubelet) logTail(lines int) string {
	data, err := os.ReadFile(logFile)
	if err != nil {
		return err.Error()
	}
	all := bytes.SplitAfter(data, []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], nil))
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
