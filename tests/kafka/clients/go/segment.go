package main

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// segment is kafka-go, which has no idempotent producer.
type segment struct{}

// wait is how long its reader waits for records, and so its end for the reader.
const wait = 200 * time.Millisecond

func (segment) produce(o options, records <-chan sent, acknowledged func(string, int64)) error {
	var lock sync.Mutex
	var failed error
	writer := &kafka.Writer{
		Addr: kafka.TCP(o.servers...), Topic: o.topic, RequiredAcks: kafka.RequireAll, MaxAttempts: 1_000,
		BatchTimeout: 5 * time.Millisecond, Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
		Async: true,
		Compression: map[string]kafka.Compression{
			"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
		}[o.compression],
		Completion: func(messages []kafka.Message, err error) {
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed = err
				return
			}
			for _, each := range messages {
				acknowledged(string(each.Value), each.Offset)
			}
		},
	}
	for each := range records {
		message := kafka.Message{Key: []byte(each.key), Value: []byte(each.value)}
		message.Headers = []kafka.Header{{Key: "prefix", Value: []byte(each.prefix)}}
		if err := writer.WriteMessages(context.Background(), message); err != nil {
			return err
		}
	}
	err := writer.Close()
	lock.Lock()
	defer lock.Unlock()
	if err == nil {
		err = failed
	}
	return err
}

// readerAt reads a partition from an offset on; the caller closes it.
func readerAt(o options, partition int, offset int64) (*kafka.Reader, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: o.servers, Topic: o.topic, Partition: partition, MaxAttempts: 1_000, MaxWait: wait,
	})
	err := reader.SetOffset(offset)
	if err != nil {
		reader.Close()
	}
	return reader, err
}

func (segment) consume(o options, read func(int64, string) bool) error {
	reader, err := readerAt(o, 0, o.offset)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		message, err := reader.ReadMessage(context.Background())
		if err != nil {
			return err
		}
		if !read(message.Offset, string(message.Value)) {
			return nil
		}
	}
}

// subscribe commits by generation: a Reader of a group keeps a commit for a later generation, in which another member
// may have committed more.
func (segment) subscribe(o options, read func(int64, string) bool) error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: o.group, Brokers: o.servers, Topics: []string{o.topic}, StartOffset: kafka.FirstOffset,
		SessionTimeout: o.session, HeartbeatInterval: o.session / 10,
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	for {
		generation, err := group.Next(context.Background())
		switch {
		case errors.Is(err, kafka.ErrGroupClosed):
			return <-ended
		case err != nil: // joining the group failed, which it tells once, and tries again
			continue
		}
		for _, each := range generation.Assignments[o.topic] {
			each := each // older Go has one variable for all rounds
			generation.Start(func(ctx context.Context) {
				if isOver, err := readGeneration(ctx, o, generation, each, read); isOver {
					ended <- err
					go group.Close() // it waits for this function
				}
			})
		}
	}
}

// readGeneration reads one partition until its generation ends; true when nothing more is to be read.
func readGeneration(
	ctx context.Context, o options, generation *kafka.Generation, part kafka.PartitionAssignment, read func(int64, string) bool,
) (bool, error) {
	reader, err := readerAt(o, part.ID, part.Offset)
	if err != nil {
		return true, err
	}
	defer reader.Close()
	for {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return ctx.Err() == nil, err
		}
		goesOn := read(message.Offset, string(message.Value))
		refused := generation.CommitOffsets(map[string]map[int]int64{o.topic: {part.ID: message.Offset + 1}})
		if !goesOn {
			return true, refused
		}
		if refused != nil { // the next generation begins at what is committed
			return false, refused
		}
	}
}

func (segment) describe(o options) (found description, err error) {
	cl, all := &kafka.Client{Addr: kafka.TCP(o.servers...), Timeout: 10 * time.Second}, context.Background()
	metadata, err := cl.Metadata(all, &kafka.MetadataRequest{})
	if err != nil {
		return found, err
	}
	found.ClusterID = metadata.ClusterID
	for _, each := range metadata.Brokers {
		found.Nodes = append(found.Nodes, int32(each.ID))
	}
	sort.Slice(found.Nodes, func(a, b int) bool { return found.Nodes[a] < found.Nodes[b] })
	for _, each := range metadata.Topics {
		found.Topics = append(found.Topics, each.Name)
		if each.Name == o.topic {
			found.Leader = int32(each.Partitions[0].Leader.ID)
		}
	}
	sort.Strings(found.Topics)
	for _, each := range []struct {
		asked  kafka.OffsetRequest
		offset *int64
	}{
		{kafka.FirstOffsetOf(0), &found.StartOffset},
		{kafka.LastOffsetOf(0), &found.EndOffset},
		{kafka.TimeOffsetOf(0, time.UnixMilli(1)), &found.OffsetOfTime},
	} {
		topics := map[string][]kafka.OffsetRequest{o.topic: {each.asked}}
		answer, err := cl.ListOffsets(all, &kafka.ListOffsetsRequest{Topics: topics})
		if err != nil {
			return found, err
		}
		told := answer.Topics[o.topic][0]
		*each.offset = told.FirstOffset
		if each.offset == &found.EndOffset {
			*each.offset = told.LastOffset
		}
		for offset := range told.Offsets {
			*each.offset = offset
		}
	}
	return found, nil
}
