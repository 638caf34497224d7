// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pullwarden/pullwarden/plugin/check"
)

// Options are what a caller may know better than the machine tells. "" leaves it to that.
type Options struct {
	Config  string // path of containerd's config.toml
	Address string // of containerd's socket

	Contained bool // this process runs in a container of the machine
}

// Machine is one onto which containerd is installed.
type Machine struct {
	tree  tree
	sys   system
	probe prober
}

// Host is this machine, or that whose root directory the process has entered: see Enter.
func Host() *Machine { return &Machine{sys: systemctl{}, probe: socketProbe{}} }

// Enter makes a directory the root of this process: that of a host, as a container sees it.
// It has to have the host's /run, /proc and /sys in it, as a mount of / with those below it
// has. Links in it lead to where they lead on the host.
func Enter(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	if err := syscall.Chroot("."); err != nil {
		return fmt.Errorf("--root %s: %w", dir, err)
	}
	return os.Chdir("/")
}

// Look collects the facts about the machine, and changes nothing.
func (m *Machine) Look(ctx context.Context, from Release, options Options) (Facts, error) {
	f := Facts{New: from, Placed: Digests{}, Contained: options.Contained}
	var err error
	if f.BadPath, err = m.badPath(); err != nil || f.BadPath != "" {
		return f, err
	}
	for _, name := range binaries() {
		if f.Placed[name], err = m.tree.digest(Dir + "/" + name); err != nil {
			return f, err
		}
	}
	if f.DropIn, err = m.tree.text(DropIn); err != nil {
		return f, err
	}
	owner, err := m.tree.text(packageFile)
	if err != nil {
		return f, err
	}
	if owner != nil {
		f.Package = strings.TrimSpace(*owner)
	}
	if f.Pending, err = m.tree.pending(); err != nil {
		return f, err
	}
	if f.Systemd = m.running(); !f.Systemd {
		return f, nil
	}
	if f.Service, err = m.sys.state(ctx); err != nil {
		return f, err
	}
	f.Service.Dependents = m.sys.active(ctx, f.Service.Dependents)
	if err := m.service(ctx, &f); err != nil {
		return f, err
	}
	m.config(&f, options) //nolint:contextcheck // it reads files
	m.ask(ctx, &f)
	return f, nil
}

// running says whether systemd runs the machine.
func (m *Machine) running() bool {
	info, err := os.Stat(m.tree.path("/run/systemd/system"))
	return err == nil && info.IsDir()
}

// badPath returns the first of our files that is something else, such as a link: it would
// be replaced, or written through.
func (m *Machine) badPath() (string, error) {
	paths := []string{DropIn, pendingFile, previousDir}
	for _, name := range binaries() {
		paths = append(paths, Dir+"/"+name, previousDir+"/"+name)
	}
	for _, path := range paths {
		info, err := os.Lstat(m.tree.path(path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, syscall.ENOTDIR):
			return filepath.Dir(path), nil
		case err != nil:
			return "", err
		case path == previousDir && info.IsDir():
		case !info.Mode().IsRegular():
			return path, nil
		}
	}
	return "", nil
}

// service finds the unit's files, the node's own containerd, and the binary that runs.
func (m *Machine) service(ctx context.Context, f *Facts) error {
	if f.Service.Load != "loaded" {
		f.Bundled = m.bundled()
		return nil
	}
	if err := m.unitFiles(&f.Service); err != nil {
		return err
	}
	if last, ok := lastExecStart(stockFiles(f.Service.Files)); ok {
		f.Stock.File = last.file
		f.Stock.Command, f.Stock.Parsed = parseCommand(last.command)
		f.Stock.Path = m.executable(f.Stock.Command.path)
		f.Stock.InDir = m.inDir(f.Stock.Path)
	}
	if f.Stock.isContainerd() && f.Stock.Path != "" {
		f.Stock.Version, _ = versionOf(ctx, m.tree.path(f.Stock.Path)) // the plan refuses an unknown one
	}
	if f.Service.PID == 0 {
		return nil
	}
	program := m.tree.path("/proc", strconv.Itoa(f.Service.PID), "exe")
	target, _ := os.Readlink(program)                   // none where it has just ended, or cannot be seen from here
	own, err := filepath.EvalSymlinks(m.tree.path(Dir)) // nor without the directory
	if err == nil && strings.TrimSuffix(target, " (deleted)") == filepath.Join(own, daemon) {
		if f.Service.Digest, err = m.tree.digest(strings.TrimPrefix(program, string(m.tree))); err != nil {
			return fmt.Errorf("the binary of the daemon that runs: %w", err)
		}
	}
	return nil
}

// unitDirs are where drop-ins may stand, those with precedence first.
func unitDirs() []string {
	return []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}
}

// unitFiles reads the unit and its drop-ins, also those that systemd has not read yet.
func (m *Machine) unitFiles(s *Service) error {
	for _, dir := range unitDirs() {
		found, _ := filepath.Glob(m.tree.path(dir, Unit+".d", "*.conf")) // the pattern is good
		for _, path := range found {
			path = "/" + strings.TrimPrefix(strings.TrimPrefix(path, string(m.tree)), "/")
			if !slices.ContainsFunc(s.Files, func(f UnitFile) bool { return filepath.Base(f.Path) == filepath.Base(path) }) {
				s.Files = append(s.Files, UnitFile{Path: path})
			}
		}
	}
	kept := s.Files[:0]
	for _, file := range s.Files {
		text, err := m.tree.text(file.Path)
		if err != nil {
			return err
		}
		if text != nil { // else it was removed since systemd has read it
			kept = append(kept, UnitFile{file.Path, *text})
		}
	}
	s.Files = kept
	return nil
}

// bundled finds Kubernetes distributions that run a containerd of their own.
func (m *Machine) bundled() []string {
	var found []string
	for _, unit := range []string{"k3s", "k3s-agent", "rke2-server", "rke2-agent", "k0scontroller", "k0sworker"} {
		for _, dir := range unitDirs() {
			if _, err := os.Stat(m.tree.path(dir, unit+".service")); err == nil {
				found = append(found, unit)
				break
			}
		}
	}
	return found
}

// executable returns the path of a command as systemd finds it, "" for none.
func (m *Machine) executable(name string) string {
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, path := range candidates {
		if info, err := os.Stat(m.tree.path(path)); err == nil && info.Mode().IsRegular() && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// inDir says whether a file is in Dir, also where a link leads there.
func (m *Machine) inDir(path string) bool {
	own, err := filepath.EvalSymlinks(m.tree.path(Dir))
	if err != nil || path == "" {
		return false
	}
	target, err := filepath.EvalSymlinks(m.tree.path(path))
	return err == nil && strings.HasPrefix(target, own+"/")
}

// ask asks the daemon and the kubelet how they are.
func (m *Machine) ask(ctx context.Context, f *Facts) {
	found, err := m.probe.daemon(ctx, f.Config.Address)
	if err != nil {
		f.CRI = err.Error()
	}
	if found.version != "" {
		f.Service.Version, _ = parseVersion("containerd v2 " + found.version) // zero where it is strange
	}
	f.Running = found.containers
	f.Kubelet = m.probe.kubelet(ctx) == nil
}

// config finds the configuration of the node's containerd, and checks it.
func (m *Machine) config(f *Facts, options Options) {
	args := strings.Fields(f.Stock.Command.rest)
	if line, err := os.ReadFile(m.tree.path("/proc", strconv.Itoa(f.Service.PID), "cmdline")); err == nil && f.Service.PID > 0 {
		args = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00") // with its variables
	}
	path, address := daemonFlags(args)
	named := path != "" || options.Config != ""
	f.Config.Path = cmp.Or(options.Config, path, defaultConfig)
	file := m.tree.path(f.Config.Path)
	_, err := os.Stat(file)
	if err == nil || named {
		report := check.Node(file, named)
		f.Config.Findings = report.Findings
	}
	f.Config.Address = cmp.Or(options.Address, address, addressIn(file), defaultAddress)
}
