// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// prometheus is a running one.
type prometheus struct {
	t       *testing.T
	address string
}

const prometheusConfig = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: containerd
    metrics_path: /v1/metrics
    static_configs: [{targets: [%q]}]
`

// startPrometheus starts one that scrapes that address each second, and evaluates these
// rules as often. It ends with the test.
func startPrometheus(t *testing.T, scraped, rules string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"prometheus.yaml": fmt.Sprintf(prometheusConfig, scraped), "rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &prometheus{t, nodetest.FreeAddress(t)}
	cmd := exec.CommandContext(t.Context(), binary(t, prometheusEnv), "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address, "--log.level=warn")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan struct{})
	go func() {
		runtime.LockOSThread() // the kernel watches the thread that started the process
		defer runtime.UnlockOSThread()
		_ = cmd.Run()
		close(ended)
	}()
	t.Cleanup(func() { // the test's context has ended
		<-ended
		if t.Failed() {
			t.Logf("Prometheus says:\n%s", output.String())
		}
	})
	until(t, func() string {
		select {
		case <-ended:
			t.Fatal("Prometheus has ended")
		default:
		}
		resp, err := http.Get("http://" + p.address + "/-/ready")
		if err != nil {
			return err.Error()
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return "Prometheus is not ready: " + resp.Status
		}
		return ""
	})
	return p
}

// get asks Prometheus' API, and decodes the data of its answer.
func (p *prometheus) get(path string, query url.Values, data any) {
	p.t.Helper()
	resp, err := http.Get("http://" + p.address + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s?%s: %s, %s, %v", path, query.Encode(), resp.Status, answer.Error, err)
	}
}

// query returns the labels and the value of each series that an expression has now.
func (p *prometheus) query(expr string) []sample {
	p.t.Helper()
	var data struct{ Result []sample }
	p.get("query", url.Values{"query": {expr}}, &data)
	return data.Result
}

type sample struct {
	Metric map[string]string
	Value  [2]any // time, and the value as a string
}

// alert is one that is pending or firing.
type alert struct {
	Labels, Annotations map[string]string
	State               string
}

func (p *prometheus) alerts() []alert {
	p.t.Helper()
	var data struct{ Alerts []alert }
	p.get("alerts", nil, &data)
	return data.Alerts
}
