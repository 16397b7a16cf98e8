from spirals.train import main


def test_it_trains():
    main()


if __name__ == "__main__":
    main()
