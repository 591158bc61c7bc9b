// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command clusterset runs local Kubernetes clusters and injects faults into
// them. The Makefile calls it: make up, make demo, make fault, make down.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "clusterset:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root, dir := ".", os.Getenv("CLUSTERSET_DIR")
	set := func() (*localcluster.Set, error) {
		set, err := localcluster.Open(root)
		if err == nil && dir != "" {
			set.Dir = dir
		}
		return set, err
	}
	cmd := &cobra.Command{
		Use:           "clusterset",
		Short:         "Run local Kubernetes clusters and inject faults into them",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().StringVar(&root, "root", root, "Root directory of the repository.")
	cmd.PersistentFlags().StringVar(&dir, "dir", dir, "Directory for the state of the clusters; also set by $CLUSTERSET_DIR. (default .local in the root directory)")
	cmd.AddCommand(
		upCommand(set),
		envCommand(set),
		&cobra.Command{
			Use: "down", Short: "Stop all clusters and remove their state", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				set, err := set()
				if err != nil {
					return err
				}
				return set.Down(cmd.Context())
			},
		},
		demoCommand(set),
	)
	cmd.AddCommand(&cobra.Command{
		Use: "slow-link INTERFACE DELAY", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			delay, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			return fabric.RunSlowLink(cmd.Context(), args[0], delay)
		},
	})
	cmd.AddCommand(wholeClusterFaults(set)...)
	cmd.AddCommand(clusterFaults(set)...)
	cmd.AddCommand(linkFaults(set)...)
	return cmd
}

type opener func() (*localcluster.Set, error)

func upCommand(open opener) *cobra.Command {
	nodes, artifacts, images := 1, "default", ""
	cmd := &cobra.Command{
		Use: "up CLUSTER...", Short: "Start clusters, in addition to the running ones", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return up(cmd.Context(), func() (*localcluster.Set, error) {
				set, err := open()
				if err == nil {
					set.Artifacts, set.Images = artifacts, images
				}
				return set, err
			}, names, nodes)
		},
	}
	addNodes(cmd, &nodes)
	cmd.Flags().StringVar(&artifacts, "artifacts", artifacts, `Directory in artifacts to install in all clusters, or "`+localcluster.NoArtifacts+`".`)
	cmd.Flags().StringVar(&images, "images", images, "OCI image layout with the images of mcs-apiserver. (default bin/release/images in the root directory)")
	return cmd
}

// envCommand prints what a shell needs to use the clusters.
func envCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use: "env", Short: `Print the environment of commands that use the clusters, for eval "$(clusterset env)"`, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			set, err := open()
			if err != nil {
				return err
			}
			fmt.Println(environment(set))
			return nil
		},
	}
}

// environment returns the command with which a shell finds the clusters and all programs.
func environment(set *localcluster.Set) string {
	return fmt.Sprintf("export KUBECONFIG=%[1]s PATH=%[2]s/bin:%[2]s/bin/kubernetes:%[2]s/bin/test:$PATH", set.Kubeconfig(), set.Root)
}

func demoCommand(open opener) *cobra.Command {
	nodes := 1
	cmd := &cobra.Command{
		Use: "demo", Short: "Start two clusters, export a Service in one and use it in the other", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), open, nodes) },
	}
	addNodes(cmd, &nodes)
	return cmd
}

func addNodes(cmd *cobra.Command, nodes *int) {
	cmd.Flags().IntVar(nodes, "nodes", *nodes, "Number of nodes of each cluster that does not exist yet.")
}

// start starts clusters with a number of nodes each.
func start(ctx context.Context, open opener, names []string, nodes int) (*localcluster.Set, error) {
	set, err := open()
	if err != nil {
		return nil, err
	}
	set.Nodes = map[string]int{}
	for _, name := range names {
		set.Nodes[name] = nodes
	}
	return set, set.Up(ctx, names...)
}

func up(ctx context.Context, open opener, names []string, nodes int) error {
	set, err := start(ctx, open, names, nodes)
	if err != nil {
		return err
	}
	fmt.Printf("\nAll clusters are ready. Use them with:\n\n  %s\n", environment(set))
	for _, name := range names {
		fmt.Printf("  kubectl --context %s get pods -A\n", name)
	}
	return nil
}

// wholeClusterFaults returns the commands that fail a cluster and start it again.
func wholeClusterFaults(open opener) []*cobra.Command {
	fault := func(use, short string, run func(context.Context, *localcluster.Cluster) error) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				set, err := open()
				if err != nil {
					return err
				}
				cluster, err := set.Cluster(args[0])
				if err != nil {
					return err
				}
				return run(cmd.Context(), cluster)
			},
		}
	}
	return []*cobra.Command{
		fault("crash CLUSTER", "Kill everything in a cluster, and drop all packets from and to it",
			func(_ context.Context, cluster *localcluster.Cluster) error { return cluster.Crash() }),
		fault("recover CLUSTER", "Start a cluster that crashed",
			func(ctx context.Context, cluster *localcluster.Cluster) error { return cluster.Recover(ctx) }),
	}
}

// clusterFaults returns the commands that inject faults into one component or node
// of a cluster.
func clusterFaults(open opener) []*cobra.Command {
	var commands []*cobra.Command
	for _, fault := range []struct {
		use, short string
		run        func(context.Context, *localcluster.Cluster, string) error
	}{
		{"kill CLUSTER COMPONENT", "Kill a component with SIGKILL", func(_ context.Context, c *localcluster.Cluster, component string) error { return c.Kill(component) }},
		{"start CLUSTER COMPONENT", "Start a component that was killed", func(ctx context.Context, c *localcluster.Cluster, component string) error {
			return c.Start(ctx, component)
		}},
		{"pause CLUSTER COMPONENT", "Suspend a component", func(_ context.Context, c *localcluster.Cluster, component string) error { return c.Pause(component) }},
		{"fill-disk CLUSTER COMPONENT", "Fill the disk of etcd or of the node agent", func(_ context.Context, c *localcluster.Cluster, component string) error { return c.FillDisk(component) }},
		{"free-disk CLUSTER COMPONENT", "Free the disk again", func(_ context.Context, c *localcluster.Cluster, component string) error { return c.FreeDisk(component) }},
		{"resume CLUSTER COMPONENT", "Resume a paused component", func(_ context.Context, c *localcluster.Cluster, component string) error { return c.Resume(component) }},
		{"cut-node CLUSTER NODE", "Drop all packets from and to a node", func(_ context.Context, c *localcluster.Cluster, node string) error { return c.CutNode(node) }},
		{"repair-node CLUSTER NODE", "Connect the node again", func(_ context.Context, c *localcluster.Cluster, node string) error { return c.RepairNode(node) }},
	} {
		commands = append(commands, &cobra.Command{
			Use: fault.use, Short: fault.short, Args: cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				set, err := open()
				if err != nil {
					return err
				}
				cluster, err := set.Cluster(args[0])
				if err != nil {
					return err
				}
				return fault.run(cmd.Context(), cluster, args[1])
			},
		})
	}
	return commands
}

// linkFaults returns the commands that impair the link between two clusters.
func linkFaults(open opener) []*cobra.Command {
	impair := func(use, short string, arguments int, fault func(args []string) (fabric.Fault, error)) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: cobra.ExactArgs(2 + arguments),
			RunE: func(cmd *cobra.Command, args []string) error {
				set, err := open()
				if err != nil {
					return err
				}
				fault, err := fault(args[2:])
				if err != nil {
					return err
				}
				fault.Clusters = [2]string{args[0], args[1]}
				return set.Impair(cmd.Context(), fault)
			},
		}
	}
	return []*cobra.Command{
		impair("cut CLUSTER CLUSTER", "Drop all packets between two clusters", 0,
			func([]string) (fabric.Fault, error) { return fabric.Fault{Cut: true}, nil }),
		impair("delay CLUSTER CLUSTER DURATION", "Delay every packet between two clusters, for example by 100ms", 1,
			func(args []string) (fabric.Fault, error) {
				delay, err := time.ParseDuration(args[0])
				return fabric.Fault{Delay: delay}, err
			}),
		impair("drop CLUSTER CLUSTER PERCENT", "Drop a share of the packets between two clusters", 1,
			func(args []string) (fabric.Fault, error) {
				loss, err := strconv.Atoi(args[0])
				return fabric.Fault{Loss: loss}, err
			}),
		impair("repair CLUSTER CLUSTER", "Remove the fault from the link between two clusters", 0,
			func([]string) (fabric.Fault, error) { return fabric.Fault{}, nil }),
	}
}
